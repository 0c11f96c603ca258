// Aliases: finds the storages that share memory with another one before a session moves them.
//
// A session that adopts a storage frees the old memory. The storage must then be reachable only
// through PyTorch's storage object. Two kinds of code break this:
//
// - Another storage object over the same memory: a tensor that torch.from_dlpack() made, a slice of
//   an UntypedStorage. Two storages that overlap are always such aliases; they are found here.
// - Code that has asked for an address, or for a DLPack export. `addresses.py` records who does
//   after `import teraio`. What was exported before is not known.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <vector>

namespace teraio::pytorch {

// Returns the storages, each once, that overlap another one, among those behind Python's tensors
// for which `can_move` returns true. Tensors that gc.freeze() hides, and tensors that only C++ code
// knows, are not found. Threads: one, with the GIL, before a session observes its operators. Raises
// as Python does when memory runs out.
std::vector<c10::intrusive_ptr<c10::StorageImpl>> find_aliases(
    const std::function<bool(c10::StorageImpl&)>& can_move);

}  // namespace teraio::pytorch
