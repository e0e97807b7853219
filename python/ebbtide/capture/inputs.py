"""What exists before a captured step: the fakes of parameters, buffers and batch, and how they are called."""

import contextlib
import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping

import torch
from torch.nn.utils import stateless
from torch.utils._pytree import tree_flatten_with_path, tree_leaves, tree_unflatten

from ..errors import CaptureError
from .alone import alone
from .fakes import Fakes
from .record import Recorder


def refuse_ranks(model):
    """Modules that reduce gradients over ranks do so in hooks of the real parameters, which a capture does not see."""
    fsdp = sys.modules.get("torch.distributed.fsdp.fully_sharded_data_parallel")
    wrappers = (torch.nn.parallel.DistributedDataParallel, *([fsdp.FullyShardedDataParallel] if fsdp else ()))
    for _, module in model.named_modules():
        if isinstance(module, wrappers):
            raise CaptureError(f"{type(module).__name__} reduces gradients over ranks, which a captured step would leave out; expected a plain module")


@dataclasses.dataclass
class Source:
    """Where the contents of a storage come from when the step is run."""

    kind: str
    name: str
    tensor: torch.Tensor | None  # the user's; None: state that the optimizer has not made yet
    value: float | None = None  # what such state begins with
    fresh: bool = False  # a constant that the model's code makes anew each time
    carried: Callable[[], torch.Tensor] | None = None  # where the tensor is that the step before has left in its place


class StepInputs:
    """Declares to a recorder all that exists before the step."""

    def __init__(self, model, batch, device, mode, plain=False):
        """`plain`: hooks that run after a gradient is stored are called by whoever runs the step, in the order of `accumulated`."""
        refuse_ranks(model)
        self.accumulated = []  # names of parameters, in the order in which their gradients are stored; where there are such hooks
        self.recorder = Recorder()
        self.fakes = Fakes(mode)
        self.sources = {}  # storage number of the recorder -> Source
        self.parameters = {}  # id of the real parameter -> (real, fake, name)
        self.state = {}  # name -> fake, for parameters and buffers
        self._device = device
        for name, real in model.named_parameters(remove_duplicate=False):
            fake = self._declare(real, "parameter", name, real.requires_grad)
            if id(real) not in self.parameters:
                self.parameters[id(real)] = (real, fake, name)
                self._copy_hooks(real, fake, name, plain)
            self.state[name] = fake
        for name, real in model.named_buffers(remove_duplicate=False):
            self.state[name] = self._declare(real, "buffer", name)
        if any(getattr(real, "_post_accumulate_grad_hooks", None) for real, _, _ in self.parameters.values()):
            for _, fake, name in self.parameters.values():
                if fake.requires_grad:
                    fake.register_post_accumulate_grad_hook(lambda _, name=name: self.accumulated.append(name))
        self.device = next((str(fake.device) for fake in self.state.values()), str(device or "cpu"))
        self.batch = self._fake_batch(batch)

    def declare_state(self, fake, name, real, value):
        """A tensor of the optimizer's; `real` is the user's where there is one already."""
        storage = self.recorder.declare(fake, "optimizer_state", name)
        self.sources[storage] = Source("optimizer_state", name, real, None if real is not None else value)

    def declare_gradients(self, mode):
        """Of earlier batches, to which those of this one are added. Like state they outlive the step."""
        for _, fake, name in self.parameters.values():
            if fake.requires_grad:
                with mode, torch.no_grad():
                    total = torch.empty_like(fake)
                self.declare_state(total, f"accumulated.{name}", None, 0.0)
                fake.grad = total

    def _declare(self, real, kind, name, requires_grad=False):
        device = self._device or ("cpu" if real.device.type == "meta" else None)
        fake = self.fakes.of(real, device, requires_grad)
        if self.recorder.known(fake) is None:
            self.sources.setdefault(self.recorder.declare(fake, kind, name), Source(kind, name, real))
        return fake

    def _copy_hooks(self, real, fake, name, plain):
        """What the user asked autograd to do with a parameter's gradient is part of the step."""
        if getattr(real, "_post_accumulate_grad_hooks", None) and not plain:
            raise CaptureError(f"parameter {name} has a hook that runs after its gradient is stored; expected none")
        for hook in (real._backward_hooks or {}).values():
            fake.register_hook(hook)

    def _fake_batch(self, batch):
        if isinstance(batch, Mapping):
            batch = dict(batch)
        if not isinstance(batch, (torch.Tensor, tuple, list, dict)):
            raise CaptureError(f"the batch is of type {type(batch).__name__}; expected a tensor, a tuple (inputs ..., target) or a dict")
        leaves, shape = tree_flatten_with_path(batch)
        fakes = []
        for path, leaf in leaves:
            name = ".".join(["batch", *(str(getattr(k, "key", getattr(k, "idx", k))) for k in path)])
            fakes.append(self._declare(leaf, "input", name, leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf)
        return tree_unflatten(fakes, shape)


@contextlib.contextmanager
def standing_in(model, state):
    """Inside, the model's parameters and buffers are the fakes of `state`. Afterwards they are the user's own again."""
    after = dict(state)
    with stateless._reparametrize_module(model, after, tie_weights=False):
        yield
    with torch.no_grad():
        for name, tensor in after.items():
            if tensor is not state[name]:  # the model's code put another tensor in the buffer's place
                state[name].copy_(tensor)


def run_model(model, batch):
    """The tensors that a model gives when it is called with the batch and nothing else: its logits, where it names them."""
    out = model(**batch) if isinstance(batch, dict) else model(*batch) if isinstance(batch, (tuple, list)) else model(batch)
    outputs = [leaf for leaf in tree_leaves(getattr(out, "logits", out)) if isinstance(leaf, torch.Tensor)]
    if not outputs:
        raise CaptureError(f"the model returns a {type(out).__name__} without tensors; expected at least one")
    return outputs


def tensors_in(value):
    """The tensors that a model's result refers to: in lists, dicts, and what libraries keep in objects (caches of keys
    and values)."""
    found, waiting, seen = [], [value], set()
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif isinstance(item, Mapping):
            waiting += reversed(list(item.values()))
        elif isinstance(item, (list, tuple)):
            waiting += reversed(item)
        elif hasattr(item, "__dict__") and not isinstance(item, (type, torch.nn.Module)):
            waiting += reversed(list(vars(item).values()))
    return found


def run_forward(model, loss_fn, batch, layers):
    """What the model gives and the loss, by the conventions that ebbtide.capture documents."""
    args, kwargs, rest = (), {}, ()
    if isinstance(batch, dict):
        kwargs = batch
        rest = (batch,) if loss_fn is not None and _positional(loss_fn) > 1 else ()
    elif isinstance(batch, torch.Tensor):
        args = (batch,)
    elif loss_fn is None or len(batch) < 2:
        args = tuple(batch)
    else:
        args, rest = tuple(batch[:-1]), (batch[-1],)
    out = model(*args, **kwargs)
    with layers.inside("loss"):
        loss = loss_fn(out, *rest) if loss_fn is not None else _own_loss(out)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        what = f"of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else f"of type {type(loss).__name__}"
        raise CaptureError(f"the loss is {what}; expected a tensor of one number")
    if not loss.requires_grad:
        raise CaptureError("the loss depends on no parameter that requires a gradient")
    return out, loss


def _own_loss(out):
    loss = out if isinstance(out, torch.Tensor) else out.get("loss") if isinstance(out, dict) else getattr(out, "loss", None)
    if loss is None:
        raise CaptureError(f"loss_fn is None and the model's {type(out).__name__} has no loss; expected out.loss, out['loss'] or one number")
    return loss


def _positional(function):
    """How many positional arguments must or may be given."""
    try:
        parameters = inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function).parameters
    except (TypeError, ValueError):
        return 1
    if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()):
        return 2
    return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty for p in parameters.values())


@contextlib.contextmanager
def nothing_else_changes():
    """The random state is as before, whatever the model's code does with it."""
    with alone(), torch.random.fork_rng(devices=[]):
        yield
