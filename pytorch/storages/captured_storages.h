// The storages that CUDA graphs know by address.
//
// A graph repeats its kernels with the addresses of the capture, whoever owns the memory then. What
// a captured op reads, writes or makes must therefore stay where it is until it dies: tensors of a
// session are pinned, and sessions adopt no storage that is noted here.
//
// Threads: any, with or without the GIL. Takes a lock of its own only.
#pragma once

#include <ATen/core/ivalue.h>

#include <atomic>
#include <vector>

namespace teraio::pytorch {

// Whether captures are under way on threads that are observed although no session runs. Their ops
// note what they use.
extern std::atomic<int> captures_outside_of_sessions;

// Notes the storage, weakly.
void note_captured(c10::StorageImpl& storage);
// Notes the storages of a tensor or a list of tensors. Ignores every other value.
void note_captured(const c10::IValue& value);

// Returns the noted storages that are alive.
std::vector<c10::intrusive_ptr<c10::StorageImpl>> captured_storages();

}  // namespace teraio::pytorch
