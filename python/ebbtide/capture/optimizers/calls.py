"""How a description speaks: `aten.add_.Tensor(parameter, gradient, alpha=s.minus_lr)` on fakes, recorded."""

import torch
from torch.utils._pytree import tree_map_only

from ..values import Scalar


class Scalars:
    """The scalars of one parameter group, by name."""

    def __init__(self, by_name):
        self.__dict__.update(by_name)


class Calls:
    """torch.ops.aten, but a call is recorded, may be given the graph's scalars for numbers, and may be given a tensor of
    one element for a number: the value is then read when the op runs."""

    def __init__(self, recorder, tracing):
        self._recorder, self._tracing = recorder, tracing

    def __getattr__(self, name):
        return _Packet(self._recorder, self._tracing, getattr(torch.ops.aten, name))


def decayed(aten, group, parameters, gradients, s):
    """The gradients of many parameters, of the other sign where the optimizer maximizes, with the weight decay added."""
    if group["maximize"]:
        gradients = aten._foreach_neg.default(gradients)
    if group["weight_decay"] == 0:
        return gradients
    if not group["maximize"]:
        return aten._foreach_add.List(gradients, parameters, alpha=s.weight_decay)
    aten._foreach_add_.List(gradients, parameters, alpha=s.weight_decay)  # the negated gradients are ours to change
    return gradients


class _Packet:
    def __init__(self, recorder, tracing, packet):
        self._recorder, self._tracing, self._packet = recorder, tracing, packet

    def __getattr__(self, overload):
        function = getattr(self._packet, overload)

        def call(*args, **kwargs):
            if function._can_decompose():  # made of other calls, which are then recorded
                with self._tracing:
                    return function(*args, **kwargs)
            plain_args, plain_kwargs = tree_map_only(Scalar, lambda s: s.value, (args, kwargs))
            plain_args = [_number(a, v) for a, v in zip(function._schema.arguments, plain_args)]
            by_name = {a.name: a for a in function._schema.arguments}
            plain_kwargs = {k: _number(by_name[k], v) for k, v in plain_kwargs.items()}
            result = function(*plain_args, **plain_kwargs)
            self._recorder.record(function, plain_args, plain_kwargs, result, values=(args, kwargs))
            return result

        return call


def _number(argument, value):
    """Shapes do not depend on what a number is; only its place must not hold a tensor."""
    kind = str(argument.real_type)
    if "Tensor" not in kind and isinstance(value, torch.Tensor):
        return 1.0
    if "Tensor" not in kind and isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value):
        return [1.0] * len(value)
    return value
