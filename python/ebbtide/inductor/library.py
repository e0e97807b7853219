"""Kernels that Inductor has compiled, by name, where the engine finds them."""

from __future__ import annotations

import ast
import ctypes
import dataclasses
import functools
import hashlib
import re
from typing import Any

from ..native.torch_library import library
from .replay import NotFused

GIVEN, CHANGED, MADE, NUMBER = range(4)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel of a program: its source, what it is called with, and whether it writes there."""

    name: str
    source: str
    writes: tuple[bool, ...]
    loaded: Any  # what the program calls


def kernels_of(source: str) -> dict[str, Kernel]:
    """The kernels that a program compiles, by their names in it."""
    from torch._inductor.codecache import PyCodeCache

    module = PyCodeCache.load(source)
    out = {}
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(value=ast.Name(id="async_compile"), attr="cpp_pybinding"),
                                                                        args=[types, ast.Constant(value=text)])):
                writes = tuple(not kind.startswith("const ") for kind in ast.literal_eval(types))
                if not all(kind.endswith("*") for kind in ast.literal_eval(types)):
                    raise NotFused(f"kernel {name} takes numbers")
                out[name] = Kernel(name, text, writes, getattr(module, name))
    return out


@functools.cache
def _native() -> Any:
    add = ctypes.CDLL(library("cpu")).ebbtide_add_fused
    add.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_char_p, ctypes.c_char_p]
    return add


def add_kernel(kernel: Kernel, addresses: list[tuple[int, int, int]], made: list[tuple[str, tuple[int, ...], tuple[int, ...]]]) -> str:
    """Makes a kernel known to the engine, with where its arguments come from and the forms of what it makes. Gives the name of it, which
    is the same for equal ones in every process."""
    text = repr((kernel.source, addresses, made))
    name = f"{short(kernel.name)}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    _load(name, kernel.loaded, addresses, made)
    return name


def _load(name: str, loaded: Any, addresses: list[tuple[int, int, int]], made: list[tuple[str, tuple[int, ...], tuple[int, ...]]]) -> None:
    shared = ctypes.CDLL(loaded.__self__.__file__)
    numbers = [len(addresses), *(n for address in addresses for n in address), len(made)]
    for _, shape, stride in made:
        numbers += [len(shape), *shape, *stride]
    error = ctypes.create_string_buffer(1024)
    if _native()(name.encode(), ctypes.cast(shared.kernel, ctypes.c_void_p), (ctypes.c_int64 * len(numbers))(*numbers),
                 " ".join(dtype for dtype, _, _ in made).encode(), error):
        raise NotFused(error.value.decode(errors="replace"))


def short(name: str) -> str:
    """cpp_fused_native_layer_norm of cpp_fused_native_layer_norm_12."""
    return re.sub(r"_\d+$", "", name)
