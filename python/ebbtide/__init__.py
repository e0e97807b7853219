"""Ebbtide: GPU memory of deep-learning training, estimated, planned and shared.

torch is imported by the calls that need it, never by `import ebbtide`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .errors import BudgetError, CaptureError, PlanError, SharedError

if TYPE_CHECKING:
    import os

    import torch

    from . import hf, lightning, loggers, ray
    from .budget.budget import Budget
    from .capture.step import CapturedStep
    from .estimate.estimate import Estimate
    from .shared.shared import Shared
    from .step.report import Report
    from .step.step import Step
    from .tide import Tide

    __version__: str
    Loss: TypeAlias = Callable[..., torch.Tensor] | None
    Batch: TypeAlias = torch.Tensor | tuple[Any, ...] | list[Any] | Mapping[str, Any]

# These packages carry the names of functions below. They are imported before the functions are defined, because the
# import system puts a package in the place of a function of its name when a module of it is first imported.
for _package in ("budget", "capture", "estimate", "step"):
    importlib.import_module(f"{__name__}.{_package}")


def capture(
    model: torch.nn.Module, loss_fn: Loss, optimizer: torch.optim.Optimizer | None, example_batch: Batch,
    device: str | torch.device | None = None, inference: bool = False, autocast: torch.dtype | None = None,
) -> CapturedStep:
    """Captures one whole training step (forward, backward, update) as a graph, without running it.

    `model` is a torch.nn.Module, `optimizer` one of torch.optim's (or None: no update). What the model and `loss_fn` are
    called with follows from `example_batch`:

        (x, ..., y)   out = model(x, ...),  loss = loss_fn(out, y)
        {"x": x, ...} out = model(x=x, ...), loss = loss_fn(out) or loss_fn(out, batch)
        x             out = model(x),       loss = loss_fn(out)

    With `loss_fn` None the loss is out.loss, out["loss"], or out itself where it is one number. `device` ("cpu",
    "cuda") says whose kernels to record; None: those of the model's parameters. With `inference` the model is called
    under torch.no_grad() and that is all: its outputs are the graph's. `autocast`, a torch.dtype, has the model and
    the loss run under torch.autocast of that type and device. Nothing of the model, the optimizer, the batch or the
    random state changes. Returns a CapturedStep; raises ebbtide.CaptureError.
    """
    from .capture.step import CaptureOptions, capture_step

    options = CaptureOptions(device=device, inference=inference, autocast=autocast)
    return capture_step(model, loss_fn, optimizer, example_batch, options)


def estimate(
    model: torch.nn.Module, example_inputs: torch.Tensor | tuple[Any, ...] | list[Any] | dict[str, Any],
    optimizer: str | torch.optim.Optimizer = "sgd", gpu: str | os.PathLike[str] = "a100-40gb", loss_fn: Loss = None,
    target: Any = None, *, inference: bool = False, autocast: str | torch.dtype | None = None,
    framework: str | None = None, zero_grad: str | None = None, iterations: int | None = None,
    alloc_conf: str | None = None,
) -> Estimate:
    """Tells how much memory a training of `model` takes on `gpu`, before it runs, on a machine without one.

    `example_inputs` is a tensor, a tuple of them or a dict of keywords: what the model is called with. The loss is
    loss_fn(out), or loss_fn(out, target) where a target is given; without a loss_fn it is the model's own (out.loss,
    out["loss"]), else the sum of all outputs. `optimizer` is one of torch.optim's objects or a name ("sgd", "momentum",
    "adam", "adamw", "rmsprop", "adagrad", "adafactor", "none"); `gpu` a name that `ebbtide gpus` lists, or a profile
    file. With `inference` the model is called under torch.no_grad() and that is all; `autocast` ("bf16", "fp16") has
    the model and the loss run under torch.autocast. The other options are those of `ebbtide estimate`. Nothing is run
    and nothing changes. Returns an Estimate, whose repr is the table; raises ValueError. See docs/python.md.
    """
    from .estimate.estimate import EstimateOptions
    from .estimate.estimate import estimate as run

    options = EstimateOptions(optimizer=optimizer, gpu=gpu, loss_fn=loss_fn, target=target, inference=inference,
                              autocast=autocast, framework=framework, zero_grad=zero_grad, iterations=iterations,
                              alloc_conf=alloc_conf)
    return run(model, example_inputs, options)


def step(
    model: torch.nn.Module, loss_fn: Loss, optimizer: torch.optim.Optimizer, example_batch: Batch,
    budget: int | str | None = None, *, policy: str = "home", link: float | str | None = None,
    device: str | torch.device = "cpu", autocast: torch.dtype | None = None, accumulate: int = 1,
    clip_grad_norm: float | None = None, clip_grad_value: float | None = None,
    on_gradients: Callable[[list[torch.Tensor]], object] | None = None, swap_state: bool = False,
    reorder: bool = False, measure: bool | Literal["again"] = True, pinned_limit: int | None = None,
    recheck: int | None = None, kernels: Literal["eager", "inductor"] = "eager", cuda_graphs: bool = False,
) -> Step:
    """One training step as a function that keeps a budget of device memory: `loss = step(x, y)` runs forward, backward
    and update, with the numbers of plain PyTorch to the last bit.

    `model`, `loss_fn`, `optimizer` and `example_batch` are those of ebbtide.capture. `budget` is a number of bytes, a
    text as "4GiB", or a share of what the step takes without a plan, as "50%"; None: no limit. `policy` is one that
    `ebbtide plan --policy` takes. `device` "cpu": the budget is for a pool of the CPU's memory, and `link` (as
    "12GB/s") slows copies out of it down to that of a GPU. `device` "cuda": the pool is the GPU's, and `pinned_limit`
    is how many bytes of the host's memory may be pinned for copies, None: all that they need. `autocast`, a
    torch.dtype, has the model and the loss run under torch.autocast. With `accumulate` n gradients are added up and
    every n-th call updates. Before an update, `on_gradients` (a function of the list of parameters, whose `.grad` it
    may read and change), `clip_grad_value` and `clip_grad_norm` are applied. With `swap_state` parameters and optimizer
    state may be on the host for a part of the step. With `reorder` ops may run in another order that gives the same
    bits. With `measure` the ops are timed first; what was measured and planned is kept on disk ("again": what was
    measured before does not count). With `recheck` n the step is captured again before every n-th step and compared
    with the one that runs (0: never; None: as the environment's EBBTIDE_RECHECK says). With `kernels` "inductor" the
    step is compiled by Inductor first, and has its numbers, the same at every budget (docs/inductor.md). With
    `cuda_graphs`, on a GPU, ops between copies are captured and launched as CUDA graphs (docs/run.md). Returns a
    Step; raises ebbtide.BudgetError, a ValueError, where no plan keeps the budget, and ebbtide.CaptureError for what
    would not be the numbers of plain PyTorch. See docs/run.md and docs/guarantees.md.
    """
    from .step.step import Step, StepOptions

    return Step(model, loss_fn, optimizer, example_batch, StepOptions(
        budget=budget, policy=policy, link=link, device=device, autocast=autocast, accumulate=accumulate,
        clip_grad_norm=clip_grad_norm, clip_grad_value=clip_grad_value, on_gradients=on_gradients,
        swap_state=swap_state, reorder=reorder, measure=measure, pinned_limit=pinned_limit, recheck=recheck, kernels=kernels,
        cuda_graphs=cuda_graphs))


def budget(limit: int | str, device: str | torch.device | None = None) -> Budget:
    """A context in which eager PyTorch keeps a limit of memory: what autograd has saved for backward goes to the host
    when memory is short, and comes back before backward needs it. The numbers are the same.

    `limit` is a number of bytes or a text as "4GiB"; the parameters, and all else that was there before, is not counted.
    `device` "cpu": it covers what torch allocates on the CPU inside the context. "cuda", "cuda:1": by how much torch's
    memory on the GPU may grow. None: the GPU, if PyTorch sees one. Raises torch.OutOfMemoryError where the limit cannot
    be kept. Returns a Budget. See docs/run.md.
    """
    from .budget.budget import Budget

    return Budget(limit, device)


def use_tide(capacity: int | str | None = None, device: int = 0) -> Tide:
    """Makes the tide allocator torch's allocator of CUDA memory, for the rest of the process: what one stream frees
    serves the others as soon as the free is scheduled.

    To be called before anything is allocated on the GPU. `capacity`, a number of bytes or a text as "10GiB", is the most
    that is taken of the device; None: all there is. Returns a Tide, with quotas of jobs and statistics. See docs/tide.md.
    """
    from .tide import use_tide as use

    return use(capacity, device)


def tide_pool() -> torch.cuda.MemPool:
    """A torch.cuda.MemPool whose memory comes from the tide allocator. See docs/tide.md."""
    from .tide import tide_pool as make

    return make()


def __getattr__(name: str) -> Any:
    if name == "Shared":  # a class; its module imports torch
        from .shared.shared import Shared

        return Shared
    if name == "Report":
        from .step.report import Report

        return Report
    if name in ("hf", "lightning", "loggers", "ray"):  # these import packages that nothing else needs
        return importlib.import_module(f"{__name__}.{name}")
    if name == "__version__":
        from .native import version

        return version()
    raise AttributeError(f"module 'ebbtide' has no attribute {name!r}")


def __dir__() -> Iterable[str]:
    return sorted(__all__)


__all__ = ["BudgetError", "CaptureError", "PlanError", "Report", "Shared", "SharedError", "__version__", "budget", "capture",
           "estimate", "hf", "lightning", "loggers", "ray", "step", "tide_pool", "use_tide"]
