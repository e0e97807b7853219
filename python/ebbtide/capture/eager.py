"""What plain PyTorch does in place and shows a tracer out of place.

Some C++ code asks whether it is being watched and then avoids in-place calls: the sum of gradients that meet, the bias of
a matrix product, the mask of attention. A capture must say what runs in training, so these are turned back.
"""

import contextlib
import os
import sys

import torch
from torch.overrides import TorchFunctionMode

try:
    from torch._prims_common import is_non_overlapping_and_dense_or_false as is_dense
except ImportError:  # before torch 2.8
    from torch._prims_common import is_non_overlapping_and_dense as is_dense

aten = torch.ops.aten

_HERE = os.path.dirname(os.path.abspath(__file__))
_TORCH = os.path.dirname(torch.__file__)
_WRAPPERS = (os.path.join(_TORCH, "_compile.py"), os.path.join(_TORCH, "_dynamo"))  # of every dispatch mode

# function that user code calls -> calls inside it that are in place in training
_INSIDE = {
    torch._C._nn.linear: {aten.add.Tensor},
    torch._C._nn.scaled_dot_product_attention: {aten.add.Tensor},
}


class InPlace(TorchFunctionMode):
    """Knows which calls of a step are in place in training."""

    def __init__(self):
        super().__init__()
        self._inside = ()
        self._in_node = True
        self._sole_owner = None  # reference counts of a gradient that nobody else holds

    def __torch_function__(self, function, types, args=(), kwargs=None):
        calls = _INSIDE.get(function)
        if calls is None:
            return function(*args, **(kwargs or {}))
        outer, self._inside = self._inside, calls
        try:
            return function(*args, **(kwargs or {}))
        finally:
            self._inside = outer

    def in_place_form(self, function, args):
        """The call that training makes instead, of which the first argument is the result; None: it is the same call."""
        if self._in_node or function is not aten.add.Tensor:
            return None
        if not _called_by_the_engine():
            return None
        references = _references(args[0])
        if self._sole_owner is None:
            self._sole_owner = references
        return aten.add_.Tensor if references == self._sole_owner and is_dense(args[0]) else None

    def writes_first_argument(self, function, args, result):
        """Whether the call, whose fake result has to be a new tensor for autograd's sake, is in place in training."""
        return function in self._inside and result.stride() == args[0].stride()

    def calibrate(self):
        """To be called once, with fakes being traced: what the counts are for a sum that is known to be in place."""
        x = torch.ones(2, requires_grad=True).sin()
        loss = (x.cos() * x.exp()).sum()  # two gradients meet at x, each held by autograd alone
        with self.backward_of(loss):
            loss.backward()

    @contextlib.contextmanager
    def backward_of(self, *ends):
        """Inside, calls between autograd's nodes are told from calls of the nodes: the former sum gradients."""
        self._follow(ends)
        self._in_node = False
        try:
            yield
        finally:
            self._in_node = True

    def _follow(self, ends):
        seen, waiting = set(), [end.grad_fn for end in ends]
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if node.name() != "torch::autograd::AccumulateGrad":
                node.register_prehook(self._enter)
                node.register_hook(self._leave)
            waiting += [following for following, _ in node.next_functions]

    def _enter(self, *_):
        self._in_node = True

    def _leave(self, *_):
        self._in_node = False


def _called_by_the_engine():
    """False inside a user's hook: the engine itself runs no Python code between its own call and a sum."""
    frame = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith((_HERE, *_WRAPPERS)):
        frame = frame.f_back
    return frame is None or frame.f_code.co_name == "_engine_run_backward"


def _references(tensor):
    return tensor._use_count(), torch._C._storage_Use_Count(tensor.untyped_storage()._cdata)
