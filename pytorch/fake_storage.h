// Fake tensors (torch._subclasses.FakeTensor) under the observer.
//
// The storage of a fake tensor is one of the meta device: it has a size, a life and no bytes. Given
// a handle, it is known to the runtime as any other, and its death is told the same way.
#pragma once

#include <ATen/core/Tensor.h>

#include "active_session.h"

namespace teraio::pytorch {

// The tensor is a wrapper around other tensors (DTensor) or something else without a storage that
// could be the runtime's: the ops that its own dispatch runs are those to look at.
bool is_wrapper(const at::Tensor& tensor);

// The storage has bytes, here or away: what a wrapper's has not.
bool has_bytes(c10::StorageImpl& storage);

// The storage counts from now on, for as long as it lives. No effect when it counts already, when
// it is empty, and for storages that are not fake.
void count_fake_storage(const ActiveSession& session, c10::StorageImpl& storage);

// The program has given a fake storage another size: what it was before has died.
void recount_fake_storage(const ActiveSession& session, c10::StorageImpl& storage);

}  // namespace teraio::pytorch
