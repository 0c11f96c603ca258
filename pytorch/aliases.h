// Aliases: finds the storages that other code can reach by address before a session moves them.
//
// A session that adopts a storage frees the old memory. The storage must then be reachable only
// through PyTorch's storage object. Three kinds of code break this:
//
// - Another storage object over the same memory: a tensor that torch.from_dlpack() made, a slice of
//   an UntypedStorage. Two storages that overlap are always such aliases.
// - A DLPack export, which NumPy or another library holds. It is an object on the heap that holds
//   a reference to the exported tensor. PyTorch keeps no list of them.
// - Code that has asked for an address. `addresses.py` records who does after `import teraio`.
//
// For exports the number of references to a tensor is a necessary sign and not a sufficient one:
// saved tensors of a graph that a kept loss holds alive, gradients, views, TorchScript's modules
// and constants, DDP's reducer and every C++ library hold references too, and most of them cannot
// be listed. With the count alone, a kept loss over frozen weights, or a traced module, would keep
// a whole model on the device. The count therefore only selects candidates. When there are any, the
// process's heap is searched for exports: an export ends with its own address and the address of
// the one function that deletes exports, and begins with the tensor. That is exact, so nothing
// stays on the device for another reason. The search reads the heap once, without the memory of
// known storages, and only in processes with candidates.
#pragma once

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <functional>
#include <vector>

namespace teraio::pytorch {

struct Aliases {
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> storages;  // each once
  // False: the heap could not be searched to its end, and some may be missing.
  bool is_complete = true;
};

// Returns the storages with aliases among those behind Python's tensors for which `can_move`
// returns true. Tensors that gc.freeze() hides, and tensors that only C++ code knows, are not
// found. Threads: one, with the GIL, before a session observes its operators. Raises as Python does
// when memory runs out.
Aliases find_aliases(const std::function<bool(c10::StorageImpl&)>& can_move);

}  // namespace teraio::pytorch
