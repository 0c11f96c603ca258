"""All instructions: how often each occurs, and which have to wait for a session."""

from random_programs import chains, files, graphs, instructions, processes

WEIGHTS = {
    instructions: {
        "make": 3, "drop": 2, "assign": 1, "view": 8, "set_storage": 3, "assign_data": 3,
        "resize": 2, "resize_storage": 1, "swap": 2, "keep_storage": 1, "change": 12, "compute": 8,
        "write_out": 3, "index": 3, "sparse": 2, "use_sparse": 1, "numpy_view": 2,
        "change_array": 3, "drop_arrays": 1, "dlpack": 2, "export": 2, "use_exported": 3,
        "duplicate": 4, "read": 4, "require_grad": 2, "hook": 2, "backward": 3, "keep_graph": 2,
        "use_graph": 2, "step": 2,
    },
    chains: {"chain": 3, "lists": 3, "other_types": 2, "random_numbers": 2},
    files: {
        "save_and_load": 2, "save_arrays": 2, "map_file": 1, "load_state": 2, "train": 3,
        "storage_bytes": 3, "share": 1,
    },
    graphs: {
        "module_hooks": 2, "saved_hooks": 2, "other_gradients": 2, "accumulate": 2,
        "inference": 1, "cycle": 1,
    },
    processes: {
        "fork": 1, "parallel": 2, "start_worker": 2, "join_worker": 2, "pin": 2, "poke": 1,
    },
}  # fmt: skip

# The function of each instruction, and its weight.
INSTRUCTIONS = {
    name: (getattr(module, name), weight)
    for module, weights in WEIGHTS.items()
    for name, weight in weights.items()
}

NOT_BEFORE_THE_SESSION = {"fork", "share", "start_worker"}
