// Changes of a storage's DataPtr in place, while other threads ask it for its handle.
//
// Assigning a DataPtr empties its context for a moment, in which another thread's op would take the
// storage for one that no session manages. These functions store one word at a time, in an order
// that a concurrent reader can rely on: the context of a managed storage changes once in its life,
// before its deleter does.
//
// Threads: one at a time changes a DataPtr; any number reads meanwhile.
#pragma once

#include <c10/core/Allocator.h>

namespace teraio::pytorch {

// Returns the deleter. What its setter stored before it is visible after this call.
c10::DeleterFnPtr deleter_of(const c10::DataPtr& data_ptr);

// Replaces context and deleter without calling the old deleter.
void set_context(c10::DataPtr& data_ptr, void* context, c10::DeleterFnPtr deleter);

// Replaces the address; context and deleter stay.
void set_address(c10::DataPtr& data_ptr, void* memory);

}  // namespace teraio::pytorch
