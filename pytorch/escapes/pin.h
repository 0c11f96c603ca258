// Pin: keeps a tensor on the device for code that reaches its bytes without an operator.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>

#include "runtime/runtime.h"

namespace teraio::pytorch {

// Restores a tensor and keeps it resident until release() or the object's end. It also keeps the
// storage alive. It has no effect on a tensor that no session manages, and in a forked child.
//
// Threads: any, one at a time, with the GIL.
class Pin {
 public:
  // `storage` may be null. `adopts`: the session of the process manages the tensor from now on if
  // it can. Raises as throw_status() does when the tensor cannot be restored.
  Pin(c10::StorageImpl* storage, bool adopts);
  ~Pin();
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  void release();

 private:
  c10::intrusive_ptr<c10::StorageImpl> storage_;  // keeps the tensor alive
  std::shared_ptr<runtime::Runtime> runtime_;
  engine::LiveTensor* tensor_ = nullptr;
};

// Pins the tensor permanently, or keeps it in place if no op has used it yet. Returns false when no
// session manages it, and in a forked child. `storage` may be null. Needs the GIL. Raises as Pin().
bool pin_address(c10::StorageImpl* storage);

// Keeps the storage where it is. Returns its bytes if they did not count against the budget yet.
// `storage` may be null. Needs the GIL.
int64_t keep_in_place(c10::StorageImpl* storage);

}  // namespace teraio::pytorch
