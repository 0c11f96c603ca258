"""The files of tensors that a script saves in a dry run, which it can rename, copy and load again.

They have the shapes of fake tensors and no contents, and they lie in a scratch directory, which the
script sees in their place: its own files of these names stay as they are. Other files, such as
logs, are written where the script writes them, or go to the scratch directory, too.
"""

import builtins
import contextlib
import functools
import io
import json
import os
import pickle
import shutil
import stat
import tempfile
import weakref

import torch
from torch._subclasses.fake_tensor import FakeTensor

from teraio.dry_run.known_values import known_value
from teraio.errors import Error
from teraio.hooks.import_hooks import PostImportHook
from teraio.hooks.patches import Patches

_MAGIC = b"teraio dry run\n"  # a saved file begins with this
# Names of files that hold tensors, by whatever function they are written.
_SUFFIXES = (".bin", ".ckpt", ".pt", ".pth", ".safetensors", ".tar")
# Functions of `os` with a path first, and those with two paths.
_ONE_PATH = ("access", "chmod", "lstat", "stat", "utime")
_REMOVING = ("remove", "unlink")
_TWO_PATHS = ("link", "rename", "replace")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CONTENTS_MAX = 4096  # elements of tensors of which a file of safetensors has no hole
_stat, _rename, _makedirs, _walk = os.stat, os.rename, os.makedirs, os.walk


class SavedFiles:
    """A context in which the tensors that a script saves go to a scratch directory.

    Args:
        modes: the `FakeModes` of the dry run.
        keeps_none: whether other files go there, too, but for those in hidden directories, where
            caches are.
    """

    def __init__(self, modes, keeps_none=False):
        self._modes = modes
        self._goes_to_scratch = _is_no_cache if keeps_none else _holds_tensors
        self._keeps_none = keeps_none
        self._made = []  # directories and links
        self._patches = Patches()
        self._stack = contextlib.ExitStack()
        self._root = ""
        self._copy = shutil.copyfile

    def __enter__(self):
        self._root = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="teraio-dry-"))
        self._stack.callback(self._remove_what_is_made)
        self._stack.callback(self._patches.undo)
        wrap = self._patches.wrap
        wrap(os, "mkdir", self._making_directory)
        wrap(os, "open", self._opening_descriptor)
        for name in _ONE_PATH:
            wrap(os, name, self._of_one_path)
        for name in _REMOVING:
            wrap(os, name, self._removing)
        for name in _TWO_PATHS:
            wrap(os, name, self._of_two_paths)
        wrap(os, "symlink", self._linking)
        wrap(os, "listdir", self._listing)
        wrap(os, "scandir", self._scanning)
        wrap(shutil, "copyfile", self._of_two_paths)
        wrap(shutil, "rmtree", self._removing_tree)
        for module in (builtins, io):
            wrap(module, "open", self._opening)
        wrap(torch, "save", self._saving)
        wrap(torch, "load", self._loading)
        wrap(torch, "PyTorchFileReader", self._opening_archive)
        hook = PostImportHook(["safetensors", "safetensors.torch"], self._patch_safetensors)
        hook.install()
        self._stack.callback(hook.remove)
        return self

    def __exit__(self, *error):
        return self._stack.__exit__(*error)

    def _patch_safetensors(self, module):
        if hasattr(module, "safe_open"):
            self._patches.wrap(module, "safe_open", self._reading)
        if hasattr(module, "save_file"):
            self._patches.set(module, "save_file", self._save_safetensors)

    def _scratch(self, path):
        """Returns the place of a path in the scratch directory, whether or not a file is there."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            return None  # a file descriptor
        absolute = os.path.abspath(os.fsdecode(path))
        return absolute if absolute.startswith(self._root) else self._root + absolute

    def _seen(self, path):
        """Returns the path of the file that the script sees at `path`, which may be `path`."""
        scratch = self._scratch(path)
        return scratch if scratch is not None and _is_kind(scratch, stat.S_ISREG) else path

    def _target(self, path):
        """Returns the path in the scratch directory to write to."""
        _stat(os.path.dirname(os.path.abspath(os.fsdecode(path))))  # raises where it is missing
        scratch = self._scratch(path)
        _makedirs(os.path.dirname(scratch), exist_ok=True)
        return scratch

    def _making_directory(self, mkdir):
        @functools.wraps(mkdir)
        def wrapper(path, *args, **kwargs):
            mkdir(path, *args, **kwargs)
            if kwargs.get("dir_fd") is None:
                self._made.append(os.path.abspath(path))

        return wrapper

    def _remove_what_is_made(self):
        """Removes links, and directories that are empty."""
        for path in reversed(self._made):
            with contextlib.suppress(OSError):
                os.unlink(path) if os.path.islink(path) else os.rmdir(path)

    def _of_one_path(self, function):
        @functools.wraps(function)
        def wrapper(path, *args, **kwargs):
            return function(self._seen(path), *args, **kwargs)

        return wrapper

    def _removing(self, remove):
        @functools.wraps(remove)
        def wrapper(path, **kwargs):
            seen = self._seen(path)
            if (
                kwargs.get("dir_fd") is not None
                or seen is not path
                or not self._goes_to_scratch(path)
            ):
                return remove(seen, **kwargs)
            _stat(path)  # the script's own file stays

        return wrapper

    def _of_two_paths(self, function):
        @functools.wraps(function)
        def wrapper(source, target, *args, **kwargs):
            seen = self._seen(source)
            if seen is source and self._goes_to_scratch(source):
                self._copy(source, self._target(target))
            elif seen is not source or self._goes_to_scratch(target):
                function(seen, self._target(target), *args, **kwargs)
            else:
                self._move(function, source, target, *args, **kwargs)
            return target if function is self._copy else None

        return wrapper

    def _move(self, function, source, target, *args, **kwargs):
        """Moves or copies what has no place in the scratch directory, but for the saved files of a
        directory."""
        if self._keeps_none and os.path.isdir(source):
            raise Error(f"the script renames the directory {source}, which no trial does")
        function(source, target, *args, **kwargs)
        scratch = self._scratch(source)
        if _is_kind(scratch, stat.S_ISDIR) and not os.path.exists(source):
            _rename(scratch, self._target(target))

    def _linking(self, symlink):
        @functools.wraps(symlink)
        def wrapper(source, target, *args, **kwargs):
            beside = os.path.join(os.path.dirname(os.path.abspath(target)), source)
            seen = self._seen(beside)
            if seen is beside:
                symlink(source, target, *args, **kwargs)
                return self._made.append(os.path.abspath(target))
            shutil.copyfile(seen, self._target(target))

        return wrapper

    def _listing(self, listdir):
        @functools.wraps(listdir)
        def wrapper(path="."):
            names, scratch = listdir(path), self._scratch(path)
            saved = listdir(scratch) if _is_kind(scratch, stat.S_ISDIR) else []
            return [*names, *(name for name in saved if name not in names)]

        return wrapper

    def _scanning(self, scandir):
        @functools.wraps(scandir)
        def wrapper(path="."):
            scratch = self._scratch(path)
            if not _is_kind(scratch, stat.S_ISDIR):
                return scandir(path)
            with scandir(path) as others, scandir(scratch) as saved:
                entries = {entry.name: entry for each in (others, saved) for entry in each}
            return _Entries(entries.values())

        return wrapper

    def _removing_tree(self, rmtree):
        @functools.wraps(rmtree)
        def wrapper(path, *args, **kwargs):
            scratch = self._scratch(path)
            if _is_kind(scratch, stat.S_ISDIR):
                rmtree(scratch)
            if scratch == path or not any(map(self._goes_to_scratch, _files_in(path))):
                rmtree(path, *args, **kwargs)

        return wrapper

    def _opening_descriptor(self, function):
        @functools.wraps(function)
        def wrapper(path, flags, *args, **kwargs):
            is_written = flags & _WRITING and "dir_fd" not in kwargs and self._goes_to_scratch(path)
            mode = "w" if flags & os.O_TRUNC else "r"
            path = self._written(path, mode) if is_written else self._seen(path)
            return function(path, flags, *args, **kwargs)

        return wrapper

    def _opening(self, function):
        @functools.wraps(function)
        def wrapper(file, mode="r", *args, **kwargs):
            if isinstance(file, (str, bytes, os.PathLike)):
                is_written = not set("wxa+").isdisjoint(mode) and self._goes_to_scratch(file)
                file = self._written(file, mode) if is_written else self._seen(file)
            return function(file, mode, *args, **kwargs)

        return wrapper

    def _written(self, path, mode):
        """Returns the path in the scratch directory to open, where what is changed has a copy."""
        target = self._target(path)
        if mode[0] in "ar" and os.path.exists(path) and not os.path.exists(target):
            self._copy(path, target)
        return target

    def _saving(self, save):
        @functools.wraps(save)
        def wrapper(obj, f, *args, **kwargs):
            if isinstance(f, (str, os.PathLike)):
                with builtins.open(self._target(f), "wb") as file:
                    return wrapper(obj, file)
            f.write(_MAGIC)
            with self._modes.real_tensors():
                _Pickler(f).dump(obj)

        return wrapper

    def _loading(self, load):
        @functools.wraps(load)
        def wrapper(f, *args, **kwargs):
            is_mapped = bool(kwargs.get("mmap"))
            if isinstance(f, (str, os.PathLike)):
                with builtins.open(f, "rb") as file:
                    if _is_saved(file):
                        return self._load(file, is_mapped)
            elif _is_saved(f):
                return self._load(f, is_mapped)
            return load(f, *args, **kwargs)

        return wrapper

    def _opening_archive(self, open_archive):
        @functools.wraps(open_archive)
        def wrapper(path):
            if isinstance(path, str) and os.path.exists(path):
                with builtins.open(path, "rb") as file:
                    if _is_saved(file):
                        return _Archive(self._load(file))
            return open_archive(path)

        return wrapper

    def _reading(self, safe_open):
        @functools.wraps(safe_open)
        def wrapper(filename, *args, **kwargs):
            return _Reader(safe_open(self._seen(filename), *args, **kwargs), self._modes)

        return wrapper

    def _load(self, file, is_mapped=False):
        with self._modes.real_tensors():
            file.read(len(_MAGIC))
            return _Unpickler(file, self._modes, is_mapped).load()

    def _save_safetensors(self, tensors, filename, metadata=None):
        """Writes a file with the right header and a hole for the contents of large tensors."""
        with builtins.open(self._target(filename), "wb") as file:
            with self._modes.real_tensors():
                _write_safetensors(tensors, file, metadata)


def _is_kind(path, is_kind):
    """Returns whether there is a file of a kind, such as stat.S_ISDIR, at a path or None."""
    try:
        return path is not None and is_kind(_stat(path).st_mode)
    except OSError:
        return False


def _holds_tensors(path):
    return isinstance(path, str | os.PathLike) and os.fspath(path).endswith(_SUFFIXES)


def _is_no_cache(path):
    """Returns whether there is a file or none at a path, and no directory on its way is hidden."""
    if not isinstance(path, str | os.PathLike):
        return False
    is_special = os.path.exists(path) and not _is_kind(path, stat.S_ISREG)
    return not is_special and "/." not in os.path.abspath(path)


def _files_in(path):
    return (os.path.join(folder, name) for folder, _, names in _walk(path) for name in names)


def _is_saved(file):
    begin = file.tell()
    is_saved = file.read(len(_MAGIC)) == _MAGIC
    file.seek(begin)
    return is_saved


class _Pickler(pickle.Pickler):
    """Keeps of a fake tensor what its type, its layout and its known contents are."""

    def __init__(self, file):
        super().__init__(file)
        self._parts = []

    def persistent_id(self, obj):
        if not isinstance(obj, FakeTensor):
            return None
        known = known_value(obj)
        content = None if known is None else known.tolist()
        is_parameter = isinstance(obj, torch.nn.Parameter)
        if obj.layout == torch.strided:
            layout = tuple(obj.shape), obj.stride(), obj.dtype
        else:
            layout = obj.detach()._reduce_ex_internal(2)[1]  # how it is made of its parts
            self._parts.append(layout)  # tensors that live have identities of their own
        return id(obj), layout, is_parameter, obj.requires_grad, content


class _Unpickler(pickle.Unpickler):
    """Makes new fake tensors, one for each that was saved."""

    def __init__(self, file, modes, is_mapped):
        super().__init__(file)
        self._modes = modes
        self._counting = contextlib.nullcontext() if modes.leaves_out(is_mapped) else modes.ops
        self._made = {}  # by the identity of the saved tensor

    def persistent_load(self, pid):
        number, layout, is_parameter, needs_gradient, content = pid
        if number not in self._made:
            with self._modes.fakes, self._counting:
                tensor = _new_tensor(layout, content)
            if is_parameter:
                tensor = torch.nn.Parameter(tensor, needs_gradient)
            self._made[number] = tensor.requires_grad_(needs_gradient)
        return self._made[number]


class _Archive:
    """A saved file that the script opens as an archive of PyTorch, to unpickle it by itself.

    It gets the tensors, whatever its unpickler does with storages.
    """

    _open = weakref.WeakValueDictionary()  # by their identity

    def __init__(self, content):
        self._content = content
        self._open[id(self)] = self

    def __reduce__(self):
        return _content_of, (id(self),)

    def get_record(self, name):
        return pickle.dumps(self)


def _content_of(archive):
    return _Archive._open[archive]._content


def _new_tensor(layout, content):
    if layout[0] == torch.sparse_coo:
        indices, values, shape, is_coalesced = layout[1]
        return torch.sparse_coo_tensor(indices, values, shape, is_coalesced=is_coalesced)
    if isinstance(layout[0], torch.layout):
        return torch.sparse_compressed_tensor(*layout[1], layout=layout[0])
    shape, stride, dtype = layout
    if content is None:
        return torch.empty_strided(shape, stride, dtype=dtype)
    return torch.tensor(content, dtype=dtype).reshape(shape)


def _write_safetensors(tensors, file, metadata):
    from safetensors import torch as safetensors

    safetensors._evaluate_tensors_for_save(tensors)
    names = {dtype: name for name, dtype in safetensors._TYPES.items()}
    header, end = {"__metadata__": metadata} if metadata else {}, 0
    for name, tensor in tensors.items():
        begin, end = end, end + tensor.numel() * tensor.element_size()
        where = {"data_offsets": [begin, end]}
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape)} | where
    text = json.dumps(header).encode()
    file.write(len(text).to_bytes(8, "little") + text)
    begin = file.tell()
    file.truncate(begin + end)
    for name, tensor in tensors.items():
        if tensor.numel() <= _CONTENTS_MAX:
            file.seek(begin + header[name]["data_offsets"][0])
            file.write(_content(tensor))


def _content(tensor):
    known = known_value(tensor)
    real = torch.ones(tensor.shape, dtype=tensor.dtype) if known is None else known
    return bytes(real.contiguous().reshape(-1).view(torch.uint8).tolist())


class _Reader:
    """An open file of safetensors, or a slice of it, whose tensors become fake."""

    def __init__(self, reader, modes):
        self._reader = reader
        self._modes = modes

    def _fake(self, function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with self._modes.real_tensors():
                result = function(*args, **kwargs)
            if hasattr(result, "get_shape"):  # a slice
                return _Reader(result, self._modes)
            return self._modes.to_fake(result, is_mapped=True)

        return wrapper

    def __getattr__(self, name):
        found = getattr(self._reader, name)
        return self._fake(found) if callable(found) else found

    def __getitem__(self, index):
        return self._fake(self._reader.__getitem__)(index)

    def __enter__(self):
        self._reader.__enter__()
        return self

    def __exit__(self, *error):
        self._reader.__exit__(*error)


class _Entries(contextlib.nullcontext):
    """What os.scandir() returns, for entries that are known."""

    def __init__(self, entries):
        super().__init__(self)
        self._entries = iter(entries)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._entries)

    def close(self):
        pass
