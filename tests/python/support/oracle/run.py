"""Runs a program by plain PyTorch and by its way into Ebbtide, and says whether every bit is the same."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import random
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch import nn

from . import models
from .contexts import CONTEXTS
from .models import MODELS, TO_MEASURE
from .mutations import MUTATIONS, World
from .optimizers import OPTIMIZERS
from .program import Program

EQUAL, REFUSED, DIFFERENT, CRASHED = "equal", "refused", "different", "crashed"
AS_TORCH = "as torch.compile"  # other bits than eager code, the same that torch.compile gives without us
_COMPANY = "64MiB"  # of a pool for two
# What our own code or PyTorch says when it refuses; anything else that is raised tells a user nothing.
_CLEAR = (ValueError, RuntimeError, NotImplementedError, TypeError)

State = dict[str, Any]


@dataclasses.dataclass
class Trace:
    """What a run did: the state before each step and at the end, the losses, and how it ended."""

    before: list[State] = dataclasses.field(default_factory=list)
    losses: list[bytes] = dataclasses.field(default_factory=list)
    end: State = dataclasses.field(default_factory=dict)
    error: Exception | None = None


@dataclasses.dataclass
class Result:
    program: Program
    kind: str
    what: str = ""  # the first thing that differs, or the message of the refusal
    compile_takes: bool | None = None  # of a refused one: whether torch.compile, as one graph, gives the bits of eager code


def build(program: Program) -> tuple[World, Any]:
    """The world of the program at its beginning, and its batches."""
    torch.manual_seed(program.seed)
    random.seed(program.seed)
    numpy.random.seed(program.seed % 2**32)
    models.WEIGHT = 1.0
    case = MODELS[program.model]()
    return World(case.model, case.loss_fn, OPTIMIZERS[program.optimizer](case.model), program.seed), case.batch


def state_of(world: World, with_random: bool = True) -> State:
    """All that a step may change, as bytes."""
    out: State = {}
    for name, parameter in world.model.named_parameters():
        out[f"parameter {name}"] = _bits(parameter)
    for name, buffer in world.model.named_buffers():
        out[f"buffer {name}"] = _bits(buffer)
    for name, module in world.model.named_modules():
        for key, value in vars(module).items():
            if not key.startswith("_") and key != "training" and isinstance(value, (int, float, torch.Tensor)):
                out[f"attribute {name}.{key}"] = _bits(value) if isinstance(value, torch.Tensor) else value
    order = [p for group in world.optimizer.param_groups for p in group["params"]]
    for number, parameter in enumerate(order):
        for key, value in sorted(world.optimizer.state.get(parameter, {}).items()):
            out[f"optimizer {number} {key}"] = _bits(value) if isinstance(value, torch.Tensor) else value
    for key, tensor in world.extra.items():
        out[f"tensor {key}"] = _bits(tensor)
        out[f"gradient of {key}"] = None if tensor.grad is None else _bits(tensor.grad)
    if with_random:
        out["random state of torch"] = _bits(torch.get_rng_state())
        out["random state of Python"] = hashlib.sha256(repr(random.getstate()).encode()).hexdigest()
        out["random state of NumPy"] = hashlib.sha256(repr(numpy.random.get_state()).encode()).hexdigest()
    return out


def _bits(tensor: torch.Tensor) -> tuple[Any, ...]:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if isinstance(tensor, torch._subclasses.FakeTensor):
        return ("a fake tensor",)
    flat = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    flat = flat.contiguous().reshape(-1)
    return tuple(tensor.shape), str(tensor.dtype), bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""


@contextlib.contextmanager
def _changed(program: Program, world: World, k: int) -> Iterator[None]:
    """Does what the program does before step k; within it the step is taken."""
    world.around.clear()
    for at, name in program.mutations:
        if at == k and MUTATIONS[name].of(world):
            MUTATIONS[name].change(world)
    with contextlib.ExitStack() as stack:
        for name in world.around:
            stack.enter_context(CONTEXTS[name]())
        yield
    for done in list(world.after_step):
        done()


def _loop(program: Program, world: World, batches: Any, trace: Trace, call: Any, with_random: bool = True) -> None:
    """`call(k, batch)` takes a step and gives its loss."""
    try:
        for k in range(program.steps):
            with _changed(program, world, k):
                batch = world.of_batch(batches(k))
                trace.before.append(state_of(world, with_random))
                loss = call(k, batch)
                trace.losses.append(_bits(loss)[2])
    except Exception as error:
        trace.error = error
    trace.end = state_of(world, with_random)


def _by_hand(world: World, model: Any = None, clears: bool = False) -> Any:
    """`clears`: a gradient that is there before the step does not count, as in a whole step of ours."""
    model = world.model if model is None else model

    def call(k: int, batch: tuple[Any, ...]) -> torch.Tensor:
        if clears:
            world.optimizer.zero_grad()
        loss = world.loss_fn(model(*batch[:-1]), batch[-1])
        loss.backward()
        world.optimizer.step()
        world.optimizer.zero_grad()
        return loss

    return call


def run_plain(program: Program, with_random: bool = True) -> Trace:
    trace = Trace()
    world, batches = build(program)
    with CONTEXTS[program.context]():
        _loop(program, world, batches, trace, _by_hand(world, clears=program.way in ("step", "shared")), with_random)
    return trace


def _run_step(program: Program, world: World, batches: Any, trace: Trace) -> None:

    random_state = torch.get_rng_state()
    try:
        step = _make_step(program, world, batches(0))
    except Exception as error:
        trace.error, trace.end = error, state_of(world)
        return
    assert torch.equal(torch.get_rng_state(), random_state), "the capture drew random numbers"
    _loop(program, world, batches, trace, lambda k, batch: step(*batch))
    step.close()


def _make_step(program: Program, world: World, batch: Any) -> Any:
    """Every third within a budget: then things are swapped and recomputed. Only a measured step knows the scratch memory of its ops."""
    import ebbtide

    def make(**options: Any) -> Any:
        return ebbtide.step(world.model, world.loss_fn, world.optimizer, batch, recheck=4, **options)  # what guards miss is found

    if program.seed % 3:
        return make(measure=program.model in TO_MEASURE)
    try:
        return make(budget="90%")
    except ebbtide.BudgetError as error:
        return make(budget=(error.minimum_budget_bytes or 0) * 11 // 10 + 4096)


def _run_compile(program: Program, world: World, batches: Any, trace: Trace) -> None:
    torch._dynamo.reset()
    try:
        model = torch.compile(world.model, backend="ebbtide", options={"measure": program.model in TO_MEASURE})
        _loop(program, world, batches, trace, _by_hand(world, model))
    finally:
        torch._dynamo.reset()


def _run_budget(program: Program, world: World, batches: Any, trace: Trace) -> None:
    import ebbtide

    limit = 192 * 1024 if program.seed % 2 else 1 << 24
    try:
        with ebbtide.budget(limit, device="cpu"):
            _loop(program, world, batches, trace, _by_hand(world))
    except Exception as error:  # of the context itself
        trace.error, trace.end = error, state_of(world)


def _run_shared(program: Program, world: World, batches: Any, trace: Trace) -> None:
    import ebbtide

    state = torch.get_rng_state()
    other = nn.Linear(16, 16)
    torch.set_rng_state(state)
    losses: list[torch.Tensor] = []
    given: list[Any] = []

    def stream() -> Iterator[Any]:
        while True:
            yield given[-1]

    try:
        with ebbtide.Shared(_COMPANY) as shared:
            own = ebbtide.step(world.model, world.loss_fn, world.optimizer, batches(0))
            company = ebbtide.step(other, lambda out: out.square().mean(), torch.optim.SGD(other.parameters(), lr=0.1), torch.ones(4, 16))
            torch.set_rng_state(state)
            shared.add(own, stream(), after=lambda job, loss: losses.append(loss.clone()))
            shared.add(company)

            def call(k: int, batch: Any) -> torch.Tensor:
                given.append(batch)
                shared.run(1)
                return losses[k]

            _loop(program, world, batches, trace, call, with_random=False)
    except Exception as error:
        trace.error = trace.error or error
        trace.end = trace.end or state_of(world, False)


_RUN = {"step": _run_step, "compile": _run_compile, "budget": _run_budget, "shared": _run_shared}


def run(program: Program) -> Result:
    """Compares the program's way in with plain PyTorch."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = run_plain(program, program.way != "shared")
        world, batches = build(program)
        trace = Trace()
        with CONTEXTS[program.context]():
            _RUN[program.way](program, world, batches, trace)
        result = _compared(program, plain, trace)
        if program.way == "compile" and result.kind in (DIFFERENT, REFUSED):
            without_us = _run_compiled(program, fullgraph=False)
            if not _compared(program, without_us, trace).what and type(without_us.error) is type(trace.error):
                result.kind = AS_TORCH
        if result.kind == REFUSED and not isinstance(trace.error, torch.OutOfMemoryError):  # a limit that cannot be kept is no refusal of the program
            result.compile_takes = compile_takes(program, plain)
    return result


def _compared(program: Program, plain: Trace, trace: Trace) -> Result:
    if trace.error is not None and plain.error is None:
        text = str(trace.error).strip()
        root = _root(trace.error)
        if not isinstance(root, _CLEAR) or not text or isinstance(root, (UnicodeError, AssertionError)):
            return Result(program, CRASHED, "".join(traceback.format_exception(trace.error))[-3000:])
        if program.way in ("step", "shared"):  # a refusal changes nothing
            expected = plain.before[len(trace.losses)] if len(trace.losses) else plain.before[0]
            if what := _difference(expected, trace.end, ignore=("random", "attribute") if program.way == "shared" else ()):
                return Result(program, DIFFERENT, f"after the refusal of step {len(trace.losses)} ({text.splitlines()[0]}): {what}")
        return Result(program, REFUSED, f"step {len(trace.losses)}: {text.splitlines()[0]}")
    for k, (mine, theirs) in enumerate(zip(plain.losses, trace.losses)):
        if mine != theirs:
            return Result(program, DIFFERENT, f"the loss of step {k}: {_number(theirs)}; plain PyTorch: {_number(mine)}")
    if len(plain.losses) != len(trace.losses):
        return Result(program, DIFFERENT, f"{len(trace.losses)} steps; plain PyTorch takes {len(plain.losses)} ({plain.error})")
    if plain.error is not None and trace.error is not None:  # what a step leaves behind that PyTorch itself refuses is nobody's
        return Result(program, EQUAL)
    what = _difference(plain.end, trace.end)
    return Result(program, DIFFERENT if what else EQUAL, what)


def _root(error: BaseException) -> BaseException:
    """Of a chain that PyTorch or a Shared wrapped around it."""
    inner = getattr(error, "inner_exception", None) or error.__cause__
    return _root(inner) if isinstance(inner, Exception) and type(error).__name__ in ("BackendCompilerFailed", "SharedError") else error


def _difference(expected: State, found: State, ignore: tuple[str, ...] = ()) -> str:
    for name in expected:
        if name.startswith(ignore) if ignore else False:
            continue
        if name not in found:
            return f"{name}: missing"
        if expected[name] != found[name]:
            return f"{name}: {_shown(found[name])}; plain PyTorch: {_shown(expected[name])}"
    return next((f"{name}: plain PyTorch has none" for name in found if name not in expected and not (ignore and name.startswith(ignore))), "")


def _shown(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 3 and isinstance(value[2], bytes):
        dtype = getattr(torch, value[1].removeprefix("torch."))
        numbers = torch.frombuffer(bytearray(value[2]), dtype=dtype)[:4].tolist() if value[2] else []
        return f"{value[0]} {numbers}"
    return str(value)[:80]


def _number(loss: bytes) -> Any:
    return numpy.frombuffer(loss, numpy.float64 if len(loss) == 8 else numpy.float32 if len(loss) == 4 else numpy.uint16)[0]


def compile_takes(program: Program, plain: Trace) -> bool:
    """Whether torch.compile takes the program's model as one graph, with the bits of eager code."""
    trace = _run_compiled(program, fullgraph=True)
    return trace.error is None and trace.losses == plain.losses


def _run_compiled(program: Program, fullgraph: bool) -> Trace:
    """By torch.compile without us."""
    torch._dynamo.reset()
    trace = Trace()
    try:
        world, batches = build(program)
        with CONTEXTS[program.context]():
            model = torch.compile(world.model, backend="aot_eager", fullgraph=fullgraph)
            _loop(program, world, batches, trace, _by_hand(world, model))
    finally:
        torch._dynamo.reset()
    return trace
