// BudgetedAllocator: PyTorch's CPU allocations, from the runtime's device memory.
//
// Registered as PyTorch's CPU allocator while a session runs. An allocation that the budget does
// not hold makes tensors leave that the running op does not need, or raises torch.OutOfMemoryError.
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

// Makes PyTorch allocate through the active session; without one, through its own allocator. Stays
// for good: a library may free later what it has allocated during a session.
void install_allocator();

// PyTorch's own CPU allocator, as it was before install_allocator().
c10::Allocator* stock_allocator();

}  // namespace teraio::pytorch
