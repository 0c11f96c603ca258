// BudgetedAllocator: serves PyTorch's CPU allocations from the runtime's device memory.
//
// It is PyTorch's CPU allocator while a session runs. When an allocation exceeds the budget, the
// runtime offloads tensors that the running op does not need. When that frees too little, the
// allocation raises torch.OutOfMemoryError.
#pragma once

#include <c10/core/Allocator.h>

#include <memory>

#include "engine/runtime.h"

namespace teraio::pytorch {

class BudgetedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t size_bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  static void deallocate_raw(void* memory);
  void copy_data(void* destination, const void* source, std::size_t count) const override;
};

// Makes PyTorch allocate through the active session, or through its own allocator when no session
// is active. The allocator is never uninstalled, because a library may free memory later that it
// allocated during a session.
void install_allocator();

// Returns PyTorch's own CPU allocator, as it was before install_allocator().
c10::Allocator* stock_allocator();

}  // namespace teraio::pytorch
