"""Functions of other packages that ask for the addresses of tensors and keep none of them.

Each table has, by the module that defines them, the names of functions and methods. They are
recognized on the stack of calls, so that it does not matter how and when they were imported.
"""

import sys

# They only compare addresses, to find storages that tensors share.
COMPARE = {
    "safetensors.torch": (
        "storage_ptr",
        "_end_ptr",
        "_find_shared_tensors",
        "_filter_shared_not_shared",
        "_is_complete",
    ),
    "transformers.pytorch_utils": ("id_tensor_storage",),
    "transformers.modeling_utils": ("_end_ptr", "_find_disjoint", "_find_identical"),
    "accelerate.utils.modeling": ("id_tensor_storage",),
    "peft.utils.other": ("id_tensor_storage",),
    "huggingface_hub.serialization._torch": ("_get_unique_id", "get_torch_storage_id"),
    "torch.autograd.graph": ("_get_tid", "_get_sid"),
    "torch.nn.modules.rnn": ("RNNBase.flatten_parameters",),
    "torch._inductor.utils": ("copy_misaligned_inputs",),
    "torch._tensor": ("Tensor.__deepcopy__", "Tensor._reduce_ex_internal"),
    "torch.distributed.checkpoint._state_dict_stager": ("StateDictStager._offload_tensor",),
    "torch.distributed.checkpoint.staging": ("BlockingAsyncStager.stage",),
    "torch.distributed.fsdp._flat_param": ("_same_storage",),
    "torch.distributed.fsdp._runtime_utils": ("_catch_all_reshard",),
    "torch.distributed.fsdp._fully_shard._fsdp_param": ("FSDPParam.reset_sharded_param",),
    "torch.distributed.utils": ("_data_ptr_allocated",),
    "torch.serialization": ("persistent_id", "persistent_load", "load_tensor"),
    "torchtitan.components.checkpointer.base": ("_shares_storage",),
}
# Functions in COMPARE call these, which keep the address: they register the memory with CUDA.
KEEP = {
    "torch.distributed.checkpoint._state_dict_stager": ("StateDictStager._stage_untyped_storage",)
}
# They use addresses until one of GIVE_BACK returns.
BORROW = {"safetensors.torch": ("_to_ndarray", "_tobytes")}
GIVE_BACK = {"safetensors.torch": ("_tobytes", "serialize", "serialize_file")}
# Kernels of operators call them, and use the addresses until the operator ends. Outside of an
# operator, nobody knows for how long.
IN_OPS = {"bitsandbytes.functional": ("get_ptr",)}

# Names among these that the versions in requirements/ lack, and that other versions have.
OTHER_VERSIONS = {
    "safetensors.torch": ("_tobytes",),  # before 0.8
    "torchtitan.components.checkpointer.base": ("_shares_storage",),  # from 0.3 on
}

# How many callers are looked at. A state dictionary adds two for each of its levels.
_CALLERS_MAX = 20
_OPERATORS = "torch._ops"  # the module whose functions Python calls operators by


def _by_name():
    tables = {}
    for table in (COMPARE, KEEP, BORROW, IN_OPS):
        for module, paths in table.items():
            for path in paths:
                tables.setdefault(path.rpartition(".")[2], {})[module] = table
    return tables


_TABLES = _by_name()  # by the name of a function and its module


def table_of_caller():
    """Returns the table of the innermost listed function that this thread executes.

    The result is COMPARE, KEEP, BORROW, IN_OPS, or None where no listed function is near.
    """
    frame = sys._getframe(1)
    for _ in range(_CALLERS_MAX):
        if frame is None:
            return None
        modules = _TABLES.get(frame.f_code.co_name)
        table = modules and modules.get(frame.f_globals.get("__name__"))
        if table is not None:
            return table
        frame = frame.f_back
    return None


def is_in_operator():
    """Whether this thread executes an operator that Python code has called."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == _OPERATORS:
            return True
        frame = frame.f_back
    return False
