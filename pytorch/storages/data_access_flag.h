// The throw-on-access flag of a storage, which PyTorch provides for fake tensors.
//
// Threads: any, but not two at a time for one storage. Neither call allocates unless it sets a
// message.
#pragma once

#include <c10/core/StorageImpl.h>

#include <string>

namespace teraio::pytorch {

// Sets what later accesses to the storage's bytes raise while they are forbidden, and forbids them.
void set_access_message(c10::StorageImpl& storage, std::string message);

// Makes accesses to the storage's bytes raise the message. Requires set_access_message() before.
void forbid_data_access(c10::StorageImpl& storage);

// Clears the flag: later accesses succeed again. The message stays.
void allow_data_access(c10::StorageImpl& storage);

}  // namespace teraio::pytorch
