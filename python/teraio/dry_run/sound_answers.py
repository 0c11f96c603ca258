"""The answers of a sound training to what programs ask of losses, norms and gradients.

No value is NaN or infinite, and no factorization fails. A single number, such as a loss, and each
of several norms compare with others as the 1 that a script gets where it reads it. An op that asks
has an answer, and so have ops that combine such answers with each other and with known values,
whatever their shapes.
"""

import math
import operator

import torch

from teraio.dry_run.known_values import known_value

aten = torch.ops.aten
_ANSWER = "_teraio_answer"  # the attribute of a fake tensor all of whose elements are this bool
_IS_NORM = "_teraio_is_norm"  # that of one all of whose elements are norms
_NORMS = {aten.linalg_vector_norm, aten.norm}

_CONSTANT = {aten.isnan: False, aten.isinf: False, aten.isposinf: False, aten.isneginf: False}
# Whether a tensor is equal to itself, and to infinity: so PyTorch computes isfinite().
_WITH_ITSELF = {aten.eq: True, aten.ne: False}
_WITH_INFINITY = {aten.eq: False, aten.ne: True}
# Their last result tells which matrices have failed.
_CHECKED = {
    *(aten.linalg_cholesky_ex, aten.linalg_inv_ex, aten._linalg_solve_ex),
    *(aten.linalg_ldl_factor_ex, aten.linalg_lu_factor_ex),
}
_COMPARING = {getattr(aten, name): getattr(operator, name) for name in "eq ne lt le gt ge".split()}
_KEEPING = {
    *(aten._to_copy, aten._unsafe_view, aten.alias, aten.clone, aten.detach, aten.expand),
    *(aten.all, aten.amax, aten.any, aten.max),
    *(aten.select, aten.squeeze, aten.unsqueeze, aten.view),
}
_COMBINING = {
    **dict.fromkeys((aten.bitwise_and, aten.logical_and, aten.mul), all),
    **dict.fromkeys((aten.bitwise_or, aten.logical_or), any),
}
_NEGATING = {aten.bitwise_not, aten.logical_not}


def note_answer(func, args, result):
    """Notes the answer that all elements of an op's result have, if that is known.

    Args:
        func: an overload of an operator.
        args: its arguments.
        result: what it has returned.
    """
    if func.overloadpacket in _NORMS:
        setattr(result, _IS_NORM, True)
    elif func.overloadpacket in _CHECKED:
        setattr(result[-1], _ANSWER, False)
    elif isinstance(result, torch.Tensor) and not result.is_floating_point():
        answer = _answer(func.overloadpacket, args)
        compares = answer is None and func.overloadpacket in _COMPARING
        if compares and all(map(_counts_as_number, args[:2])):
            answer = bool(_COMPARING[func.overloadpacket](*map(_number, args[:2])))
        setattr(result, _ANSWER, answer)


def noted_answer(tensor):
    """Returns the bool that all elements of a tensor are, or None if it is not known."""
    return getattr(tensor, _ANSWER, None)


def _counts_as_number(value):
    return not isinstance(value, torch.Tensor) or value.numel() == 1 or hasattr(value, _IS_NORM)


def _number(value):
    """Returns a number, what a tensor with one is known to be, or else 1."""
    if not isinstance(value, torch.Tensor):
        return value
    known, noted = known_value(value), noted_answer(value)
    if known is not None and known.numel() == 1:
        return known.item()
    return 1 if noted is None else noted


def _answer(op, args):
    if op in _CONSTANT:
        return _CONSTANT[op]
    if op in _WITH_ITSELF and len(args) > 1:
        return _comparison(op, *args[:2])
    answers = [_answer_of(each) for each in args if isinstance(each, torch.Tensor)]
    if op in _COMBINING and len(answers) == 2:
        return _combined(_COMBINING[op], answers)
    if not answers or None in answers:
        return None
    if op in _NEGATING:
        return not answers[0] if args[0].dtype == torch.bool else None
    return answers[0] if op in _KEEPING else None


def _answer_of(tensor):
    """Returns the bool or number that all elements of a tensor are, or None."""
    noted, known = noted_answer(tensor), known_value(tensor)
    if noted is not None or known is None or known.is_floating_point() or known.numel() == 0:
        return noted
    first = known.reshape(-1)[0].item()
    return first if (known == first).all() else None


def _combined(combine, answers):
    decisive = combine is any  # true or anything is true, and false and anything is false
    if any(each is not None and bool(each) is decisive for each in answers):
        return decisive
    return None if None in answers else combine(answers)


def _comparison(op, left, right):
    if left is right:
        return _WITH_ITSELF[op]
    is_infinite = isinstance(right, float) and math.isinf(right)
    return _WITH_INFINITY[op] if is_infinite else None
