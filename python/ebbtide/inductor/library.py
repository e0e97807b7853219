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
from . import triton
from .cpp import Coming, faster
from .replay import NotFused

GIVEN, CHANGED, MADE, NUMBER = range(4)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel of a program: its source, what it is called with, and whether it writes there."""

    name: str
    types: tuple[str, ...]  # of its arguments: in C++, or for Triton their names
    source: str
    loaded: Any  # what the program calls, or where that is to come

    @property
    def writes(self) -> tuple[bool, ...]:
        return tuple("out_ptr" in kind if self.is_triton else not kind.startswith("const ") for kind in self.types)

    @property
    def is_triton(self) -> bool:
        return self.name.startswith("triton_")


@dataclasses.dataclass(frozen=True)
class Called:
    """A kernel with where its arguments come from, (list, place in it, bytes), and the forms of what it makes, (dtype, shape, stride)."""

    kernel: Kernel
    addresses: tuple[tuple[int, int, int], ...]
    made: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    forms: tuple[Any, ...] = ()  # for Triton: of each argument its form, (dtype, shape, stride, offset), or the number that it is

    @property
    def name(self) -> str:
        """The same for equal ones in every process."""
        text = repr((self.kernel.source, self.addresses, self.made, self.forms))
        return f"{short(self.kernel.name)}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def to_json(self) -> list[Any]:
        return [self.kernel.name, list(self.kernel.types), self.kernel.source, self.addresses, self.made, self.forms]


def called_of(said: list[Any]) -> Called:
    """Of to_json's. The kernel is compiled if Inductor's cache does not have it any more."""
    from torch._inductor.codecache import CppPythonBindingsCodeCache

    name, types, source, addresses, made, forms = said
    loaded = triton.compiled(name, source) if name.startswith("triton_") else CppPythonBindingsCodeCache.load_pybinding(types, source)
    return Called(Kernel(name, tuple(types), source, loaded), tuple((a, b, c) for a, b, c in addresses),
                  tuple((dtype, tuple(shape), tuple(stride)) for dtype, shape, stride in made),
                  tuple((form[0], *map(tuple, form[1:3]), form[3]) if isinstance(form, list) else form for form in forms))


def kernels_of(source: str) -> dict[str, Kernel]:
    """The kernels that a program compiles, by their names in it."""
    from torch._inductor.codecache import PyCodeCache

    module = PyCodeCache.load(source)
    out = {}
    for node in ast.parse(source).body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(value=ast.Name(id="async_compile"), attr="cpp_pybinding"),
                                                                        args=[types, ast.Constant(value=str(text))])):
                kinds = tuple(ast.literal_eval(types))
                if not all(kind.endswith("*") for kind in kinds):
                    raise NotFused(f"kernel {name} takes numbers")
                out[name] = Kernel(name, kinds, faster(text), getattr(module, name))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(value=ast.Name(id="async_compile"), attr="triton"),
                                                                        args=[_, ast.Constant(value=str(text)), *_])):
                out[name] = Kernel(name, triton.arguments_of(text), text, getattr(module, name))
    return out


@functools.cache
def _native() -> Any:
    add = ctypes.CDLL(library("cpu")).ebbtide_add_fused
    add.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_char_p, ctypes.c_char_p]
    return add


def load(called: Called) -> None:
    """Makes a kernel known to the engine, under its name."""
    if called.kernel.is_triton:
        triton.load(called)
        return
    loaded = called.kernel.loaded
    if isinstance(loaded, Coming):
        loaded = loaded.result()
    shared = ctypes.CDLL(loaded.__self__.__file__)
    numbers = [len(called.addresses), *(n for address in called.addresses for n in address), len(called.made)]
    for _, shape, stride in called.made:
        numbers += [len(shape), *shape, *stride]
    error = ctypes.create_string_buffer(1024)
    if _native()(called.name.encode(), ctypes.cast(shared.kernel, ctypes.c_void_p), (ctypes.c_int64 * len(numbers))(*numbers),
                 " ".join(dtype for dtype, _, _ in called.made).encode(), error):
        raise NotFused(error.value.decode(errors="replace"))


def short(name: str) -> str:
    """cpp_fused_native_layer_norm of cpp_fused_native_layer_norm_12."""
    return re.sub(r"_\d+$", "", name)
