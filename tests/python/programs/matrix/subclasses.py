"""Subclasses of tensors as people write them."""

import torch
from torch.utils._pytree import tree_leaves, tree_map


class Tagged(torch.Tensor):
    """A subclass that only adds a method."""

    def doubled(self):
        return self * 2


class Counting(torch.Tensor):
    """A subclass over ordinary bytes that sees every operator."""

    calls = 0
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_subclass(cls, data, data.requires_grad)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        Counting.calls += 1
        return super().__torch_dispatch__(function, types, args, kwargs or {})


class Pair(torch.Tensor):
    """A wrapper around two tensors, to which every operator is applied. It tells what it holds."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, a, b):
        pair = torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)
        pair.a, pair.b = a, b
        return pair

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        def apply(name):
            parts = tree_map(lambda x: getattr(x, name) if isinstance(x, Pair) else x, args)
            return function(*parts, **(kwargs or {}))

        a, b = apply("a"), apply("b")
        return args[0] if a is args[0].a else Pair(a, b)


class Bag(torch.Tensor):
    """A wrapper around tensors in containers, to which every operator is applied. It tells nobody
    what it holds."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, parts):
        first = tree_leaves(parts)[0]
        bag = torch.Tensor._make_wrapper_subclass(cls, first.shape, dtype=first.dtype)
        bag.parts = parts
        return bag

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        bag, *others = args
        parts = tree_map(lambda part: function(part, *others, **(kwargs or {})), bag.parts)
        same = tree_leaves(parts)[0] is tree_leaves(bag.parts)[0]
        return bag if same else Bag(parts)
