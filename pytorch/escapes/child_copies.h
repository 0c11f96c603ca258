// Copies of tensors in files, for children that the program forks: a child can restore nothing,
// because the threads of the tiers exist only in its parent.
//
// Threads: any, with the GIL. A child calls use_copy() before it starts a thread.
#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <optional>

#include "engine/use.h"

namespace teraio::pytorch {

// Returns the version of the storage's bytes. Nothing: a child finds them in the memory that it
// inherits, because no session moves them. A tensor that no op has used can leave from now on: the
// program has it.
std::optional<engine::BytesVersion> bytes_version(c10::StorageImpl& storage);

// Restores the storage and writes its bytes to a file, from `offset_bytes` on. Requires a
// bytes_version(). Raises as throw_status() does when the storage cannot be restored, and
// RuntimeError when the file cannot be written.
void write_copy(c10::StorageImpl& storage, int fd, int64_t offset_bytes);

// In a forked child: the storage's bytes are from now on those of the file, at an offset of whole
// pages. The child may change them; the file and other processes do not see that. Raises
// RuntimeError when the system refuses to map the file.
void use_copy(c10::StorageImpl& storage, int fd, int64_t offset_bytes);

}  // namespace teraio::pytorch
