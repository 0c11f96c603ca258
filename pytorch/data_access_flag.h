// The throw-on-access flag of a storage, which PyTorch provides for fake tensors.
//
// Threads: the caller ensures that no other thread uses the storage's data pointer. For a storage
// of the runtime it therefore holds the runtime's lock.
#pragma once

#include <c10/core/StorageImpl.h>

#include <string>

namespace teraio::pytorch {

// Makes every later access to the storage's bytes raise RuntimeError with `message`.
void forbid_data_access(c10::StorageImpl& storage, std::string message);

// Clears the flag: later accesses succeed again.
void allow_data_access(c10::StorageImpl& storage);

}  // namespace teraio::pytorch
