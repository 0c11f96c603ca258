#include "storages/budgeted_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "op_error.h"
#include "running_op.h"
#include "storages/active_session.h"
#include "storages/storage_swap.h"
#include "storages/tensor_handle.h"

namespace teraio::pytorch {
namespace {

BudgetedAllocator& allocator() {
  static auto* instance = new BudgetedAllocator();  // never freed: storages keep a pointer to it
  return *instance;
}

c10::Allocator*& previous_allocator() {
  static c10::Allocator* previous = nullptr;
  return previous;
}

}  // namespace

c10::DataPtr BudgetedAllocator::allocate(size_t size_bytes) {
  const SessionUse use;
  const ActiveSession* session = use.get();
  if (session == nullptr || session->is_dry || !session->backend->torch_device().is_cpu())
    return stock_allocator()->allocate(size_bytes);
  if (size_bytes == 0) return {nullptr, c10::Device(c10::DeviceType::CPU)};
  const StorageReferenceGuard guard;
  const Result<NewTensor> newborn =
      make_tensor(session->runtime, session->backend->torch_device(), size_bytes);
  if (!newborn.ok()) throw_status(newborn.status(), current_op_name());
  return make_newborn_data_ptr(newborn->handle, newborn->memory);
}

void BudgetedAllocator::deallocate_raw(void* memory) {
  if (!release_newborn(memory)) stock_allocator()->raw_deallocate(memory);
}

c10::DeleterFnPtr BudgetedAllocator::raw_deleter() const { return &deallocate_raw; }

void BudgetedAllocator::copy_data(void* destination, const void* source, std::size_t count) const {
  default_copy_data(destination, source, count);
}

c10::Allocator* stock_allocator() {
  c10::Allocator* previous = previous_allocator();
  return previous != nullptr ? previous : c10::GetDefaultCPUAllocator();
}

void install_allocator() {
  if (c10::GetCPUAllocator() == &allocator()) return;
  previous_allocator() = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&allocator(), /*priority=*/100);
}

}  // namespace teraio::pytorch
