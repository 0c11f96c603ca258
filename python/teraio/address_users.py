"""Functions of other packages that ask for the addresses of tensors and keep none of them.

Each table has, by module, the names of functions and methods. A module that imports a function by
its name calls what it has imported before the session, so that it is listed, too.
"""

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
    "transformers.modeling_utils": (
        "_end_ptr",
        "_find_disjoint",
        "_find_identical",
        "id_tensor_storage",
    ),
    "accelerate.utils.modeling": ("id_tensor_storage",),
    "accelerate.utils.other": ("id_tensor_storage",),
    "peft.utils.other": ("id_tensor_storage",),
    "peft.peft_model": ("id_tensor_storage",),
    "huggingface_hub.serialization._torch": ("_get_unique_id", "get_torch_storage_id"),
    "torch._inductor.compile_fx": ("copy_misaligned_inputs",),
    "torch._inductor.utils": ("copy_misaligned_inputs",),
    "torch._tensor": ("Tensor.__deepcopy__", "Tensor._reduce_ex_internal"),
    # The inner function of _create_cpu_state_dict.
    "torch.distributed._state_dict_utils": ("tensor_func",),
    "torch.distributed.checkpoint._state_dict_stager": ("StateDictStager._offload_tensor",),
    "torch.distributed.checkpoint.staging": ("BlockingAsyncStager.stage",),
    "torch.distributed.fsdp._flat_param": ("_data_ptr_allocated", "_same_storage"),
    "torch.distributed.fsdp._runtime_utils": ("_catch_all_reshard",),
    "torch.distributed.fsdp._fully_shard._fsdp_param": ("FSDPParam.reset_sharded_param",),
    "torchtitan.components.checkpointer.base": ("_shares_storage",),
}
# Called by functions in COMPARE. These do use the address, to register the memory with CUDA.
USE = {
    "torch.distributed.checkpoint._state_dict_stager": ("StateDictStager._stage_untyped_storage",),
}
# They read the bytes at the addresses, and do not use the addresses after they return.
READ = {"safetensors.torch": ("_tobytes",)}
# They ask for addresses for later use. GIVE_BACK has functions after whose return these addresses
# are not used any more.
BORROW = {"safetensors.torch": ("_to_ndarray",)}
GIVE_BACK = {"safetensors.torch": ("serialize", "serialize_file")}
# Kernels of operators call them, and use the addresses until the operator ends. Outside of an
# operator, nobody knows for how long.
IN_OPS = {
    "bitsandbytes.backends.cpu.ops": ("get_ptr",),
    "bitsandbytes.backends.cuda.ops": ("get_ptr",),
}
# PyTorch's own, which compare addresses while they write or read a file.
SERIALIZE = {"torch.serialization": ("_save", "_legacy_save", "_load", "_legacy_load")}
# Names among these that the versions in requirements/ lack, and that other versions have.
OTHER_VERSIONS = {
    "safetensors.torch": ("_tobytes",),  # before 0.8
    "torchtitan.components.checkpointer.base": ("_shares_storage",),  # from 0.3 on
}
