// BudgetedAllocator: serves PyTorch's CPU allocations from the runtime's device memory while a
// session for the CPU runs, and from PyTorch's own allocator otherwise.
//
// When an allocation exceeds the budget, the runtime offloads tensors that the running op does not
// need. When that frees too little, the allocation raises torch.OutOfMemoryError. An allocation of
// 0 bytes returns null.
//
// Threads: any, with or without the GIL. Allocations and frees of a session's memory take the
// runtime's lock.
#pragma once

#include <c10/core/Allocator.h>

#include "runtime/runtime.h"

namespace teraio::pytorch {

class BudgetedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size_bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  static void deallocate_raw(void* memory);
  void copy_data(void* destination, const void* source, std::size_t count) const override;
};

// Makes BudgetedAllocator PyTorch's CPU allocator. It is never uninstalled, because a library may
// free memory later that it allocated during a session. Later calls have no effect. Threads: one.
void install_allocator();

// Returns PyTorch's own CPU allocator, as it was before install_allocator().
c10::Allocator* stock_allocator();

}  // namespace teraio::pytorch
