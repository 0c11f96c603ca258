"""Answers to the question whether values are finite, which programs ask of losses and gradients.

A dry run has no values. It answers as a sound training does: no value is NaN or infinite. An op
that asks has an answer, and so have ops that combine such answers, whatever their shapes.
"""

import math

import torch

aten = torch.ops.aten
_ANSWER = "_teraio_answer"  # the attribute of a fake tensor all of whose elements are this bool

_CONSTANT = {aten.isnan: False, aten.isinf: False, aten.isposinf: False, aten.isneginf: False}
# Whether a tensor is equal to itself, and to infinity: so PyTorch computes isfinite().
_WITH_ITSELF = {aten.eq: True, aten.ne: False}
_WITH_INFINITY = {aten.eq: False, aten.ne: True}
_KEEPING = {
    aten._to_copy,
    aten._unsafe_view,
    aten.alias,
    aten.all,
    aten.any,
    aten.clone,
    aten.detach,
    aten.expand,
    aten.select,
    aten.squeeze,
    aten.unsqueeze,
    aten.view,
}
_COMBINING = {
    aten.bitwise_and: all,
    aten.logical_and: all,
    aten.mul: all,
    aten.bitwise_or: any,
    aten.logical_or: any,
}
_NEGATING = {aten.bitwise_not, aten.logical_not}


def note_answer(func, args, result):
    """Notes the answer that all elements of an op's result have, if that is known.

    Args:
        func: an overload of an operator.
        args: its arguments.
        result: what it has returned.
    """
    if isinstance(result, torch.Tensor) and result.dtype == torch.bool:
        setattr(result, _ANSWER, _answer(func.overloadpacket, args))


def noted_answer(tensor):
    """Returns the bool that all elements of a tensor are, or None if it is not known."""
    return getattr(tensor, _ANSWER, None)


def _answer(operator, args):
    if operator in _CONSTANT:
        return _CONSTANT[operator]
    if operator in _WITH_ITSELF and len(args) > 1:
        return _comparison(operator, *args[:2])
    answers = [noted_answer(each) for each in args if isinstance(each, torch.Tensor)]
    if not answers or None in answers:
        return None
    if operator in _COMBINING:
        return _COMBINING[operator](answers) if len(answers) == 2 else None
    if operator in _NEGATING:
        return not answers[0]
    return answers[0] if operator in _KEEPING else None


def _comparison(operator, left, right):
    if left is right:
        return _WITH_ITSELF[operator]
    is_infinite = isinstance(right, float) and math.isinf(right)
    return _WITH_INFINITY[operator] if is_infinite else None
