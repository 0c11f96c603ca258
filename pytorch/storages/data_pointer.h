// Changes of a storage's DataPtr in place, while other threads ask it for its handle.
//
// Assigning a DataPtr empties its context for a moment, in which another thread's op would take the
// storage for one that no session manages, or read half of the new one. These functions store one
// word at a time, in an order that a concurrent reader can rely on: the context of a managed
// storage changes once in its life, before its deleter does.
//
// Threads: one at a time changes a DataPtr; any number reads meanwhile, by the functions below.
#pragma once

#include <c10/core/Allocator.h>

#include <atomic>
#include <memory>

namespace teraio::pytorch {

using DataPtrContext = std::unique_ptr<void, c10::DeleterFnPtr>;

// PyTorch has no call that changes one part of a DataPtr. The private members are reached by
// explicit instantiation, which the language allows to name them.
template <auto Pointer, auto Data, auto OwnContext>
struct DataPtrParts {
  friend void*& address_in(c10::DataPtr& data_ptr) { return data_ptr.*Pointer.*Data; }
  friend DataPtrContext& context_in(c10::DataPtr& data_ptr) {
    return data_ptr.*Pointer.*OwnContext;
  }
};
void*& address_in(c10::DataPtr& data_ptr);
DataPtrContext& context_in(c10::DataPtr& data_ptr);
template struct DataPtrParts<&c10::DataPtr::ptr_, &c10::detail::UniqueVoidPtr::data_,
                             &c10::detail::UniqueVoidPtr::ctx_>;

// Returns the deleter. What its setter stored before it is visible after this call. Every op asks
// for that of each of its storages, so the call is inline.
inline c10::DeleterFnPtr deleter_of(const c10::DataPtr& data_ptr) {
  c10::DeleterFnPtr& deleter = context_in(const_cast<c10::DataPtr&>(data_ptr)).get_deleter();
  return std::atomic_ref(deleter).load(std::memory_order_acquire);
}

// Returns the address.
inline void* address_of(const c10::DataPtr& data_ptr) {
  void*& address = address_in(const_cast<c10::DataPtr&>(data_ptr));
  return std::atomic_ref(address).load(std::memory_order_relaxed);
}

// Replaces context and deleter without calling the old deleter.
void set_context(c10::DataPtr& data_ptr, void* context, c10::DeleterFnPtr deleter);

// Replaces the address; context and deleter stay.
void set_address(c10::DataPtr& data_ptr, void* memory);

// Replaces all three, and returns the old ones. The device stays.
c10::DataPtr exchange(c10::DataPtr& data_ptr, void* memory, void* context,
                      c10::DeleterFnPtr deleter);

}  // namespace teraio::pytorch
