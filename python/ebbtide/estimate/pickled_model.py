"""A model on its way to a process that captures it: pickled without the numbers in its tensors, which a capture never asks
for. As SCRIPT.py:job it is what that process loads."""

from __future__ import annotations

import io
import os
import pickle
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

IN_CHILD = "EBBTIDE_ESTIMATION_JOB"  # names the pickle, in the process that captures
_KEPT = 64 * 1024  # bytes: smaller tensors that are no parameters keep their numbers, as code may ask for them


class Loss:
    """loss_fn(out) or loss_fn(out, target); without a function the model's own loss, or the sum of its outputs."""

    def __init__(self, function):
        self.function = function

    def __call__(self, out, target=None):
        if self.function is not None:
            return self.function(out) if target is None else self.function(out, target)
        own = out.get("loss") if isinstance(out, dict) else getattr(out, "loss", None)
        if isinstance(own, torch.Tensor):
            return own
        numbers = [leaf for leaf in tree_leaves(out) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        return sum(leaf.sum() for leaf in numbers)


class Parts(tuple):
    """Model, loss, optimizer and batch, and how they are to be captured: {"inference": True, "autocast": dtype}."""

    how: dict[str, Any]

    def __new__(cls, parts, how):
        made = super().__new__(cls, parts)
        made.how = how
        return made


def build_optimizer(optimizer, model):
    """One of torch's objects, or a name."""
    from ebbtide.torch_models import OPTIMIZERS

    if not isinstance(optimizer, str):
        return optimizer
    return None if optimizer == "none" else OPTIMIZERS[optimizer]([p for p in model.parameters() if p.requires_grad])


def write_job(parts, path):
    """`parts`: see Parts."""
    import multiprocessing.spawn

    try:
        from cloudpickle import Pickler  # also takes what a notebook defines
    except ImportError:
        Pickler = pickle.Pickler

    class WithoutNumbers(Pickler):
        def __init__(self, file):
            super().__init__(file, protocol=5)
            self._storages = {}

        def reducer_override(self, value):
            if isinstance(value, torch.Tensor) and _is_hollow(value):
                real = value.untyped_storage()
                storage = self._storages.setdefault(real._cdata, HollowStorage(real.nbytes()))
                return _tensor, (storage, value.dtype, value.storage_offset(), tuple(value.shape), value.stride(),
                                 value.requires_grad, isinstance(value, torch.nn.Parameter))
            if isinstance(value, torch.optim.Optimizer):
                how, arguments, state, *rest = value.__reduce_ex__(5)
                return (how, arguments, _attributes_of(value) | state, *rest)
            parent = getattr(super(), "reducer_override", None)
            return parent(value) if parent is not None else NotImplemented

    body = io.BytesIO()
    WithoutNumbers(body).dump((tuple(parts), parts.how))
    preparation = multiprocessing.spawn.get_preparation_data("ebbtide")
    preparation.pop("authkey", None)
    with open(path, "wb") as file:  # first what is needed to find the classes
        pickle.dump(preparation, file)
        file.write(body.getvalue())


def _attributes_of(optimizer):
    """What an optimizer's class keeps in attributes of its own, which torch's pickling of optimizers leaves out."""
    torchs = vars(torch.optim.SGD([torch.empty(0)], lr=0.1))
    return {name: value for name, value in vars(optimizer).items() if name not in torchs and name != "step"}


class HollowStorage:
    """As many bytes as a storage, with nothing behind them. One per storage, so that tied tensors stay tied."""

    def __init__(self, size):
        self.size = size

    def __setstate__(self, state):
        self.size = state["size"]
        self.storage = torch.UntypedStorage(self.size, device="meta")


def _is_hollow(tensor):
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided
    return plain and (isinstance(tensor, torch.nn.Parameter) or tensor.untyped_storage().nbytes() > _KEPT)


def _tensor(storage, dtype, offset, shape, stride, requires_grad, is_parameter):
    with torch.no_grad():
        tensor = torch.empty(0, dtype=dtype, device="meta").set_(storage.storage, offset, shape, stride)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def job():
    """What SCRIPT.py:function returns, in the process that captures."""
    import multiprocessing.spawn

    from ebbtide.errors import HandoverError

    try:
        with open(os.environ[IN_CHILD], "rb") as file:
            multiprocessing.spawn.prepare(pickle.load(file))
            (model, loss, optimizer, batch), how = pickle.load(file)
    except Exception as error:  # whatever the user's modules raise
        raise HandoverError(f"the model cannot be unpickled: {type(error).__name__}: {error}") from error
    return Parts((model, loss, build_optimizer(optimizer, model), batch), how)
