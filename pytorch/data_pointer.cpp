#include "data_pointer.h"

#include <atomic>
#include <memory>

namespace teraio::pytorch {
namespace {

using Context = std::unique_ptr<void, c10::DeleterFnPtr>;

// PyTorch has no call that changes one part of a DataPtr. The private members are reached by
// explicit instantiation, which the language allows to name them.
template <auto Pointer, auto Data, auto OwnContext>
struct Parts {
  friend void*& address_in(c10::DataPtr& data_ptr) { return data_ptr.*Pointer.*Data; }
  friend Context& context_in(c10::DataPtr& data_ptr) { return data_ptr.*Pointer.*OwnContext; }
};
void*& address_in(c10::DataPtr& data_ptr);
Context& context_in(c10::DataPtr& data_ptr);
template struct Parts<&c10::DataPtr::ptr_, &c10::detail::UniqueVoidPtr::data_,
                      &c10::detail::UniqueVoidPtr::ctx_>;

}  // namespace

c10::DeleterFnPtr deleter_of(const c10::DataPtr& data_ptr) {
  c10::DeleterFnPtr& deleter = context_in(const_cast<c10::DataPtr&>(data_ptr)).get_deleter();
  return std::atomic_ref(deleter).load(std::memory_order_acquire);
}

void set_context(c10::DataPtr& data_ptr, void* context, c10::DeleterFnPtr deleter) {
  Context& own = context_in(data_ptr);
  (void)own.release();
  own.reset(context);
  std::atomic_ref(own.get_deleter()).store(deleter, std::memory_order_release);
}

void set_address(c10::DataPtr& data_ptr, void* memory) {
  std::atomic_ref(address_in(data_ptr)).store(memory, std::memory_order_relaxed);
}

}  // namespace teraio::pytorch
