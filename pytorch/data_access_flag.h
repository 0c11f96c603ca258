// The throw-on-access flag of a storage, which PyTorch has for fake tensors.
#pragma once

#include <c10/core/StorageImpl.h>

#include <string>

namespace teraio::pytorch {

// Every access to the storage's bytes raises `message` from now on.
void forbid_data_access(c10::StorageImpl& storage, std::string message);

// Accesses are allowed again.
void allow_data_access(c10::StorageImpl& storage);

}  // namespace teraio::pytorch
