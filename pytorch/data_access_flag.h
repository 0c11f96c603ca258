// The throw-on-access flag of a storage, which PyTorch provides for fake tensors.
#pragma once

#include <c10/core/StorageImpl.h>

#include <string>

namespace teraio::pytorch {

// Makes every later access to the storage's bytes raise `message`.
void forbid_data_access(c10::StorageImpl& storage, std::string message);

// Clears the flag: later accesses succeed again.
void allow_data_access(c10::StorageImpl& storage);

}  // namespace teraio::pytorch
