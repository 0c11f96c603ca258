"""Writes files of safetensors one tensor at a time.

safetensors gets the addresses of all tensors before it writes a file, so that all of them had to be
on the device at once. Here its own header is filled in, and the tensors follow one by one: the
bytes of the file are the same.
"""

import functools
import json
import sys

_HEADER_SIZE_BYTES = 8  # the length of the header, before the header
_ALIGNMENT_BYTES = 8


class _Deferred:
    """Tensors whose addresses the library will ask for later, one by one."""

    def __init__(self, tensors):
        self.tensors = tensors


def wrappers(module, reading):
    """Returns pairs of a name in the module `safetensors.torch` and what takes its place.

    They are none where the module lacks what is needed.

    Args:
        module: `safetensors.torch`.
        reading: a decorator: while the function runs, tensors whose addresses it asks for stay.
    """
    needed = ("TensorSpec", "serialize", "serialize_file", "_flatten_as_ptr", "_to_ndarray")
    if sys.byteorder != "little" or not all(hasattr(module, name) for name in needed):
        return []
    flatten, serialize, serialize_file = (
        getattr(module, name) for name in ("_flatten_as_ptr", "serialize", "serialize_file")
    )

    @functools.wraps(flatten)
    def flatten_later(tensors, *keep_alive):
        module._evaluate_tensors_for_save(tensors)
        if not all(tensor.is_contiguous() for tensor in tensors.values()):
            return flatten(tensors, *keep_alive)  # an error, which tells more
        return _Deferred(tensors)

    @functools.wraps(serialize)
    def serialize_all(tensors, *args, **kwargs):
        if not isinstance(tensors, _Deferred):
            return serialize(tensors, *args, **kwargs)
        arrays = []
        return serialize(flatten(tensors.tensors, arrays), *args, **kwargs)

    @functools.wraps(serialize_file)
    def write(tensors, filename, metadata=None):
        if not isinstance(tensors, _Deferred):
            return serialize_file(tensors, filename, metadata=metadata)
        _write(module, serialize, reading, tensors.tensors, filename, metadata)

    return [
        ("_flatten_as_ptr", flatten_later),
        ("serialize", serialize_all),
        ("serialize_file", write),
    ]


def _write(module, serialize, reading, tensors, filename, metadata):
    header, names = _header(module, serialize, tensors, metadata)
    with open(filename, "wb") as file:
        file.write(header)

        @reading
        def write_tensor(tensor):
            array, _owner = module._to_ndarray(tensor)
            file.write(array.data)

        for name in names:
            write_tensor(tensors[name])


def _header(module, serialize, tensors, metadata):
    """Returns the bytes before the first tensor, and the names in the order of the tensors.

    The library decides the order and the names of the types: it gets empty tensors for that.
    """
    specs = {name: _spec(module, tensor) for name, tensor in tensors.items()}
    empty = {
        name: module.TensorSpec(dtype=_dtype(tensors[name]), shape=[0], data_ptr=1, data_len=0)
        for name in specs
    }
    entries = json.loads(serialize(empty, metadata=metadata)[_HEADER_SIZE_BYTES:])
    names = [name for name in entries if name != "__metadata__"]
    offset = 0
    for name in names:
        end = offset + specs[name].data_len
        entries[name] |= {"shape": list(specs[name].shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT_BYTES)
    return len(text).to_bytes(_HEADER_SIZE_BYTES, "little") + text, names


def _spec(module, tensor):
    size_bytes = tensor.numel() * tensor.element_size()
    return module.TensorSpec(
        dtype=_dtype(tensor), shape=tensor.shape, data_ptr=1, data_len=size_bytes
    )


def _dtype(tensor):
    return str(tensor.dtype).removeprefix("torch.")
