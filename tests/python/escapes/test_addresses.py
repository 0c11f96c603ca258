"""Every way to a tensor's address: what has the address sees later changes of the tensor."""

import contextlib
import ctypes
import re
import types

import numpy as np
import pytest
import torch
from matrix import budgets
from torch._C import _to_dlpack, _to_dlpack_versioned  # before any session
from torch.utils.dlpack import from_dlpack

from teraio import core
from teraio.escapes import addresses, intercepted_methods

base_numpy = torch._C.TensorBase.numpy
MADE_BEFORE = torch.zeros(20_000)
bound_before = MADE_BEFORE.numpy
POINTERS = ctypes.pythonapi.PyCapsule_GetPointer
POINTERS.restype, POINTERS.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


def by_exchange_table(tensor):
    """What a library gets that is a client of DLPack's C interface, such as TVM's."""
    table = POINTERS(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    functions = (ctypes.c_void_p * 7).from_address(table)
    managed, taken = ctypes.c_void_p(), ctypes.py_object()
    export = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(functions[3])
    take = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(functions[4])
    assert export(tensor, ctypes.addressof(managed)) == 0
    assert take(managed, ctypes.addressof(taken)) == 0
    tensor = taken.value
    ctypes.pythonapi.Py_DecRef(taken)
    return tensor


def by_plain_exchange(tensor):
    table = POINTERS(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api")
    functions = (ctypes.c_void_p * 7).from_address(table)
    exported = (ctypes.c_void_p * 6)()  # a DLTensor, which begins with the address
    export = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(functions[5])
    assert export(tensor, ctypes.addressof(exported)) == 0
    return floats_at(exported[0], tensor)


def floats_at(address, tensor):
    return np.ctypeslib.as_array((ctypes.c_float * tensor.numel()).from_address(address))


WAYS = {
    "numpy": torch.Tensor.numpy,
    "numpy of the base class": base_numpy,
    "a part of an array": lambda t: t.numpy()[:100],
    "memory of an array": lambda t: torch.frombuffer(memoryview(t.numpy()), dtype=torch.float32),
    "asarray": np.asarray,
    "asarray of PyTorch": lambda t: torch.asarray(t, copy=False),
    "DLPack to NumPy": np.from_dlpack,
    "DLPack to PyTorch": torch.from_dlpack,
    "capsule": lambda t: from_dlpack(_to_dlpack(t)),
    "versioned capsule": lambda t: from_dlpack(_to_dlpack_versioned(t)),
    "C table": by_exchange_table,
    "C table without an owner": by_plain_exchange,
    "address": lambda t: floats_at(t.data_ptr(), t),
    "address of the base class": lambda t: floats_at(torch._C.TensorBase.data_ptr(t), t),
    "address for C++": lambda t: floats_at(torch._C._data_address(t), t),
    "address of a storage": lambda t: floats_at(t.untyped_storage().data_ptr(), t),
    "slice of a storage": lambda t: torch.empty(0).set_(t.untyped_storage()[:4000]),
    "storage": lambda t: torch.empty(0).set_(t.untyped_storage()),
}


@pytest.mark.parametrize("is_in_session", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_what_has_the_address_sees_later_changes(way, is_in_session):
    with contextlib.ExitStack() as stack:
        session = budgets.offload("64MB", evict_after_every_op=True)
        if is_in_session:
            stack.enter_context(session)
        tensor = torch.ones(20_000) * 3
        torch.zeros(1) + 1
        view = WAYS[way](tensor)
        if not is_in_session:
            stack.enter_context(session)
        for expected in (4, 5):
            tensor.add_(1)
            torch.full((200_000,), 7.0) + 1  # writes into memory that was freed
            assert float(view[0]) == expected


def test_a_method_that_was_bound_before_the_session():
    MADE_BEFORE.zero_()
    with budgets.offload("64MB", evict_after_every_op=True):
        MADE_BEFORE.add_(1)
        array = bound_before()
        MADE_BEFORE.add_(1)
        torch.full((200_000,), 7.0) + 1
        assert array[0] == 2


def test_functions_are_pytorchs_own_after_the_session():
    with budgets.offload("64MB"):
        assert base_numpy is torch.Tensor.numpy
    with pytest.raises(TypeError, match="numpy"):
        base_numpy(1)
    assert base_numpy(torch.ones(2)).tolist() == [1, 1]


# All functions of torch._C whose names tell of addresses or of memory.
TELLING = re.compile(
    "ptr|address|dlpack|numpy|buffer|capsule|pointer|array|memoryview|_share_|_alias_of|_overlaps"
    "|_write_file"
)
INTERCEPTED = set(addresses.EXPORTS) | set(addresses.EXCHANGE_TABLES)
OTHERS = {
    "makes tensors of memory that others have": """
        StorageBase.from_buffer _VariableFunctionsClass.asarray _VariableFunctionsClass.from_numpy
        _VariableFunctionsClass.frombuffer _construct_storage_from_data_pointer _from_dlpack""",
    "gives the address of an object, and none of the tensor's bytes": r"""
        StorageBase._new_with_weak_ptr _aoti.(unsafe_)?alloc_\w+ _profiler._\w+Info.(cls|self)_ptr
        _profiler._TensorMetadata.impl_ptr _storage_address""",
    "tells an address of the past, in a profile": """
        _profiler._ExtraFields_Allocation.ptr _profiler._TensorMetadata.storage_data_ptr
        _profiler.symbolize_addresses""",
    "gives memory that no session manages": r"_distributed_c10d._SymmetricMemory.\w+",
    "gives tensors": r"""
        _FunctionBase._input_grad_buffers _distributed_c10d.GradBucket.buffer
        _distributed_c10d.GradBucket.set_buffer cpp.nn.Module.(_|named_)?buffers
        _VariableFunctionsClass._nested_view_from_buffer(_copy)?""",
    "raises the error of an offloaded tensor, where it has one": r"""
        Script\w+._?save_to_buffer\S* StorageBase._share_cuda_ _tensors_data_ptrs_at_indices_equal
        _aoti.AOTIModel\w+.update_constant_buffer(_from_blob|_from_cpu)?""",
    "sets what an access to a storage of the program raises": """
        _clear_storage_data_ptr_access_error_msg _set_storage_data_ptr_access_error_msg
        _set_throw_on_mutable_data_ptr _set_warn_deprecated_on_mutable_data_ptr
        _storage_throw_on_immutable_data_ptr _storage_throw_on_mutable_data_ptr""",
    "has to do with no tensor": r"""
        _crash_if_vptr_ubsan
        _backport_\S+ _aoti.\S+(free_inactive|swap)_constant_buffer _cuda_tunableop_\S+
        _gds_deregister_buffer _get_m\S+ _load_for_lite_interpreter_from_buffer _mps_\S+
        _profiler._cuspy.\S+ _te.LoopNest.compress_buffer import_ir_module_from_buffer""",
}


def telling_functions(owner=torch._C, path=()):
    """Returns the dotted names of functions below torch._C, and properties, that match TELLING."""
    found = set()
    for name, value in vars(owner).items():
        if isinstance(value, types.ModuleType | type):
            is_ours = getattr(value, "__module__", value.__name__).startswith("torch._C")
            is_below = name == value.__name__.rpartition(".")[2] and owner is not value
            if is_below and (is_ours or value.__name__ in vars(torch._C)):
                found |= telling_functions(value, (*path, name))
        elif (callable(value) or hasattr(value, "__get__")) and TELLING.search(name):
            found.add(".".join((*path, name)))
    return found


def test_every_function_that_tells_of_memory_is_classified():
    methods = {name for _, name, _ in intercepted_methods.WRAPPERS}
    others = re.compile(
        "|".join(f"(?:{pattern})" for text in OTHERS.values() for pattern in text.split())
    )
    found = telling_functions()
    assert {"TensorBase.data_ptr", "_to_dlpack", "StorageBase._write_file"} <= found
    unknown = {
        name
        for name in found - INTERCEPTED
        if name.rpartition(".")[2] not in methods and not others.fullmatch(name)
    }
    assert unknown == set()


@pytest.mark.parametrize("name", addresses.EXPORTS)
def test_exports_are_replaced_where_this_pytorch_has_them(name):
    function = torch._C
    for part in name.split("."):
        function = getattr(function, part, None)
    if function is None:
        pytest.skip("not applicable: another version has it")
    assert core.original_c_function(function) is not function
