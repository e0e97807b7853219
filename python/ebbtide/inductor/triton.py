"""Triton's kernels as an op of torch's dispatcher, ebbtide::triton. They are started by Python, as Inductor's programs do it."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import torch

from .replay import NotFused

if TYPE_CHECKING:
    from .library import Called

GIVEN, CHANGED, MADE, NUMBER = range(4)  # as library.py has them
_loaded: dict[str, Called] = {}


def arguments_of(source: str) -> tuple[str, ...]:
    """The names of the arguments that a kernel is started with."""
    found = re.search(r"^def \w+\(([^)]*)\):", source, re.MULTILINE)
    if found is None:
        raise NotFused("a kernel of Triton's is of another form")
    return tuple(name.strip() for name in found[1].split(",") if ":" not in name)


def compiled(name: str, source: str) -> Any:
    """A kernel, from Triton's cache where it is there."""
    from torch._inductor.async_compile import AsyncCompile

    kernel = AsyncCompile().triton(name, source, device_str="cuda")
    return kernel.result() if hasattr(kernel, "result") else kernel


def load(called: Called) -> None:
    """Makes a kernel known, and starts it once on zeros: then it has chosen how to run, for which it takes memory."""
    _register()
    if called.name in _loaded:
        return
    tensors: dict[tuple[int, int], int] = {}
    for (kind, place, offset), form in zip(called.addresses, called.forms):
        if kind != NUMBER:
            dtype, shape, stride, _ = form
            reach = 1 + sum((n - 1) * s for n, s in zip(shape, stride)) if all(shape) else 0
            tensors[kind, place] = max(tensors.get((kind, place), 0), offset + reach * getattr(torch, dtype).itemsize)
    memory = {key: torch.zeros(size, dtype=torch.uint8, device="cuda") for key, size in tensors.items()}
    arguments = [form if kind == NUMBER else _view(memory[kind, place].untyped_storage(), form)
                 for (kind, place, _), form in zip(called.addresses, called.forms)]
    _start(called, arguments)
    torch.cuda.synchronize()
    _loaded[called.name] = called


def _view(storage: torch.UntypedStorage, form: Any) -> torch.Tensor:
    dtype, shape, stride, offset = form
    return torch.empty(0, dtype=getattr(torch, dtype), device=storage.device).set_(storage, offset, shape, stride)


def _start(called: Called, arguments: list[Any]) -> None:
    called.kernel.loaded.run(*arguments, stream=torch._C._cuda_getCurrentRawStream(torch.cuda.current_device()))


@functools.cache
def _register() -> torch.library.Library:
    library = torch.library.Library("ebbtide", "FRAGMENT")
    library.define("triton(str kernel, Tensor[] given, Tensor(a!)[] changed) -> Tensor[]")
    library.impl("triton", _run, "CompositeImplicitAutograd")
    return library


def _run(name: str, given: list[torch.Tensor], changed: list[torch.Tensor]) -> list[torch.Tensor]:
    called = _loaded[name]
    made = [torch.empty_strided(shape, stride, dtype=getattr(torch, dtype), device="cuda") for dtype, shape, stride in called.made]
    lists = {GIVEN: given, CHANGED: changed, MADE: made}
    arguments = [form if kind == NUMBER else _view(lists[kind][place].untyped_storage(), form)
                 for (kind, place, _), form in zip(called.addresses, called.forms)]
    _start(called, arguments)
    return made
