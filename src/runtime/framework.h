// Framework: what a run needs from the framework whose tensors it moves (PyTorch).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "device/device.h"
#include "engine/replayer.h"
#include "engine/storage_swap.h"
#include "engine/wait_interrupt.h"

namespace teraio::runtime {

// Threads: the thread that opens a run calls the functions of the device and is_interrupted(), the
// one that ends it calls available_bytes(), and any thread calls the rest. The references are valid
// as long as the object.
class Framework {
 public:
  virtual ~Framework() = default;

  // Returns the device budget of a run that sets none. Fails with kInvalidArgument on a device that
  // has no default.
  virtual Result<int64_t> default_budget_bytes() const = 0;
  virtual Result<std::unique_ptr<device::Device>> make_device(int64_t budget_bytes) = 0;
  // Returns how much more device memory the end of a run may take before the system ends the
  // process; the largest number if the device refuses instead.
  virtual int64_t available_bytes() const = 0;

  virtual engine::StorageSwap& swap() = 0;
  virtual engine::Replayer& replayer() = 0;

  // Ends waits for drives when the user interrupts the program.
  virtual engine::WaitInterrupt& wait_interrupt() = 0;
  // Returns whether the user has interrupted the program while a run opens.
  virtual bool is_interrupted() = 0;
  // As for WaitWithoutOtherLock.
  virtual bool wait_without_other_lock(const std::function<void()>& wait) = 0;
  // As for RuntimeOptions::wait_for_unpin.
  virtual bool wait_for_unpin() = 0;
};

}  // namespace teraio::runtime
