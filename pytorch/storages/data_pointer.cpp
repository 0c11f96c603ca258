#include "storages/data_pointer.h"

namespace teraio::pytorch {

void set_context(c10::DataPtr& data_ptr, void* context, c10::DeleterFnPtr deleter) {
  DataPtrContext& own = context_in(data_ptr);
  (void)own.release();
  own.reset(context);
  std::atomic_ref(own.get_deleter()).store(deleter, std::memory_order_release);
}

void set_address(c10::DataPtr& data_ptr, void* memory) {
  std::atomic_ref(address_in(data_ptr)).store(memory, std::memory_order_relaxed);
}

c10::DataPtr exchange(c10::DataPtr& data_ptr, void* memory, void* context,
                      c10::DeleterFnPtr deleter) {
  c10::DataPtr previous(data_ptr.get(), data_ptr.get_context(), data_ptr.get_deleter(),
                        data_ptr.device());
  set_address(data_ptr, memory);
  set_context(data_ptr, context, deleter);
  return previous;
}

}  // namespace teraio::pytorch
