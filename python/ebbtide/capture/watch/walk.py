"""Which objects the user's code can reach from some roots, with a note of what each holds.

Torch's, NumPy's and Python's own functions and classes are taken as they are; what they refer to of the user's is followed. With
`names`, attributes that no executed code spells are passed over: a model may refer to a trainer, which refers to the world. Those of modules are not, with
`any_of_modules`: code has read attributes by names that it made.
"""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import itertools
import os
import random
import sys
import sysconfig
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..installed import package_of
from . import notes
from .notes import Note, is_atom

_LARGE = 10_000  # parts of one container: beyond, only numbers, strings and the like are looked at
_MOST = 300_000  # parts in all
_LARGEST_ARRAY = 1 << 20  # bytes
# Their state is their own affair: locks, logs, files, compiled patterns.
_OPAQUE = frozenset({"logging", "threading", "_thread", "io", "_io", "re", "weakref", "asyncio", "concurrent", "multiprocessing", "queue",
                     "socket", "subprocess", "warnings", "contextvars", "abc", "typing", "ctypes", "sqlite3", "inspect", "ast", "ebbtide", "_ebbtide_dryrun"})
_EMPTY: list[Any] = [[], (), {}, set(), "", b"", range(0), {}.keys(), {}.values(), {}.items()]
_ITERATORS = (types.GeneratorType, itertools.count, itertools.cycle, itertools.chain, itertools.islice, map, zip, filter, enumerate, reversed,
              *(type(iter(each)) for each in _EMPTY))
_TENSOR_FIELDS = ("_backward_hooks", "_post_accumulate_grad_hooks", "__class__")
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_ROOTS = tuple(os.path.abspath(p) + os.sep for p in (os.path.dirname(torch.__file__), sysconfig.get_paths()["stdlib"], _PACKAGE))
_TORCH = _ROOTS[0]


@functools.cache
def is_library(filename: str) -> bool:
    """Whether code of this file is torch's, NumPy's, Python's own or ours."""
    if filename.startswith("<frozen") or filename.startswith(_TORCH):
        return True
    package = package_of(filename)
    if package is not None:
        return package in ("numpy", "torch", "ebbtide")
    return filename.startswith(_ROOTS)


def is_library_module(name: str | None) -> bool:
    """The same of a module's name."""
    top = (name or "").partition(".")[0]
    return top in ("torch", "numpy", "ebbtide", "builtins") or (top in sys.stdlib_module_names and top != "__main__")


class Walk:
    """Notes, and what could not be noted: (path, why)."""

    def __init__(self, names: set[str] | None = None, any_of_modules: bool = False) -> None:
        self.notes: list[Note] = []
        self.refused: list[tuple[str, str]] = []
        self._names, self._any_of_modules = names, any_of_modules
        self._seen: dict[int, Any] = {}  # by id; what is here stays alive, so that ids stay its own
        self._parts = 0
        self._waiting: list[tuple[Any, str]] = []

    def add(self, value: Any, path: str) -> None:
        """Notes all that is reached from `value`."""
        self._waiting.append((value, path))
        while self._waiting:
            item, where = self._waiting.pop()
            if not is_atom(item) and id(item) not in self._seen:
                self._seen[id(item)] = item
                self._visit(item, where)

    def add_global(self, found: notes.Globals, name: str) -> None:
        """Notes one name of a module's globals, and what it refers to."""
        if name not in found.names:
            found.name_too(name)
            self.add(found.kept[name], f"{found.path}.{name}")

    def ids(self) -> frozenset[int]:
        """Of all that has been reached so far, which stays alive with this object."""
        return frozenset(self._seen)

    def knows(self, value: Any) -> bool:
        return id(value) in self._seen

    def _note(self, note: Note) -> Note:
        self.notes.append(note)
        return note

    def _follow(self, note: Note) -> None:
        parts = note.kept
        self._parts += len(parts)
        if len(parts) > _LARGE or self._parts > _MOST:
            if not all(map(is_atom, parts.values())):
                self.refused.append((note.path, f"holds {len(parts)} values, more than are looked at between steps"))
            return
        filtered = note.namespace and self._names is not None and not (self._any_of_modules and note.of_module)
        for key, value in parts.items():
            if not is_atom(value) and not (filtered and key not in self._names):  # type: ignore[operator]
                self._waiting.append((value, note.path_of(key)))

    def _visit(self, value: Any, path: str) -> None:
        for kinds, visit in _VISITS:
            if isinstance(value, kinds):
                visit(self, value, path)
                return
        if type(value).__module__.partition(".")[0] not in _OPAQUE:
            self._object(value, path)

    # -- kinds of objects ---------------------------------------------------------------------------------------------------

    def _nothing(self, value: Any, path: str) -> None:
        pass

    def _tensor(self, value: torch.Tensor, path: str) -> None:
        if isinstance(value, FakeTensor):  # of the capture, and gone with it
            return
        if not isinstance(value, (torch.nn.Parameter, torch.nn.Buffer)):
            self._note(notes.Form(value, path))
        self._follow(self._note(notes.Fields(value, _TENSOR_FIELDS, path)))
        self._follow(self._note(notes.Attributes(vars(value), path)))

    def _dict(self, value: Any, path: str) -> None:
        self._follow(self._note(notes.Entries(value, path)))
        if hasattr(value, "__dict__"):
            self._object(value, path)

    def _list(self, value: Any, path: str) -> None:
        self._follow(self._note(notes.Items(value, path)))
        if hasattr(value, "__dict__"):
            self._object(value, path)

    def _set(self, value: Any, path: str) -> None:
        self._follow(self._note(notes.Members(value, path)))

    def _tuple(self, value: Any, path: str) -> None:
        self._parts += len(value)
        if len(value) <= _LARGE:
            self._waiting += [(item, f"{path}[{n}]") for n, item in enumerate(value) if not is_atom(item)]

    def _function(self, value: types.FunctionType, path: str) -> None:
        if not is_library(value.__code__.co_filename):
            self._follow(self._note(notes.Fields(value, ("__code__", "__defaults__", "__kwdefaults__"), path)))
            self._follow(self._note(notes.Attributes(vars(value), path)))
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            if id(cell) not in self._seen:
                self._seen[id(cell)] = cell
                self._follow(self._note(notes.Fields(cell, ("cell_contents",), name if name != "__class__" else path)))

    def _method(self, value: Any, path: str) -> None:
        self._waiting += [(value.__self__, path), (value.__func__, path)]

    def _partial(self, value: Any, path: str) -> None:
        self._waiting += [(value.func, path), (value.args, path), (value.keywords, path)]

    def _wrapper(self, value: Any, path: str) -> None:
        self._waiting += [(getattr(value, name, None), path) for name in ("fget", "__func__", "__wrapped__", "func")]

    def _cache(self, value: Any, path: str) -> None:
        self._note(notes.Cache(value, path))
        self._wrapper(value, path)

    def _builtin(self, value: Any, path: str) -> None:
        if not isinstance(value.__self__, types.ModuleType):
            self._waiting.append((value.__self__, path))

    def _reference(self, value: Any, path: str) -> None:
        self._waiting.append((value(), path))

    def _class(self, value: type, path: str) -> None:
        if value is object:
            return
        note = self._note(notes.ClassAttributes(value, value.__qualname__))
        if not is_library_module(value.__module__):
            self._follow(note)
        self._waiting += [(base, base.__qualname__) for base in value.__mro__[1:]]

    def _array(self, value: Any, path: str) -> None:
        if getattr(value, "dtype", None) is not None and value.dtype.hasobject:
            self._waiting += [(item, path) for item in value.flat]
        elif memoryview(value).nbytes > _LARGEST_ARRAY:
            self.refused.append((path, f"is an array of {memoryview(value).nbytes} bytes, more than are looked at between steps; a tensor may be as large as "
                                       "you like"))
        else:
            self._note(notes.Contents(value, path))

    def _iterator(self, value: Any, path: str) -> None:
        self.refused.append((path, f"is a {type(value).__name__}, whose position cannot be looked at"))

    def _random(self, value: Any, path: str) -> None:
        self._note(random_note(value, path))

    def _module(self, value: torch.nn.Module, path: str) -> None:
        if isinstance(value, torch.jit.ScriptModule):
            self.refused.append((path, "is a scripted module, whose attributes cannot be looked at"))
            return
        buffers = vars(value).get("_buffers")
        if isinstance(buffers, dict) and id(buffers) not in self._seen:
            self._seen[id(buffers)] = buffers
            self._note(notes.Buffers(buffers, path))
        self._object(value, path)

    def _object(self, value: Any, path: str) -> None:
        slots = [n for c in type(value).__mro__ for n in _slots(c) if n not in ("__dict__", "__weakref__")]
        attributes = getattr(value, "__dict__", None)
        if not isinstance(attributes, dict):
            attributes = None
        if attributes is None and not slots:
            return
        self._follow(self._note(notes.Fields(value, ("__class__", *slots, *(("__dict__",) if attributes is not None else ())), path)))
        if attributes is not None and id(attributes) not in self._seen:
            self._seen[id(attributes)] = attributes
            note = self._note(notes.Attributes(attributes, path))
            note.of_module = isinstance(value, torch.nn.Module)
            self._follow(note)


def _slots(of: type) -> tuple[str, ...]:
    slots = of.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(f"_{of.__name__.lstrip('_')}{n}" if n.startswith("__") and not n.endswith("__") else n for n in names)


def random_note(value: Any, path: str) -> notes.RandomState:
    """Of one of Python's or NumPy's sources of random numbers."""
    if isinstance(value, random.Random):
        return notes.RandomState(value, lambda r: r.getstate(), lambda r, state: r.setstate(state), path)
    if hasattr(value, "bit_generator"):
        return random_note(value.bit_generator, path)
    if hasattr(value, "get_state"):
        return notes.RandomState(value, lambda r: r.get_state(), lambda r, state: r.set_state(state), path)
    return notes.RandomState(value, lambda r: r.state, lambda r, state: setattr(r, "state", state), path)


def _numpy(*names: str) -> tuple[type, ...]:
    numpy: Any = sys.modules.get("numpy")
    return tuple(functools.reduce(getattr, name.split("."), numpy) for name in names) if numpy is not None else ()


Visit = Callable[[Walk, Any, str], None]
_VISITS: list[tuple[Any, Visit]] = [
    (types.ModuleType, Walk._nothing),
    (torch.Tensor, Walk._tensor),
    (torch.nn.Module, Walk._module),
    (type, Walk._class),
    (types.FunctionType, Walk._function),
    (types.MethodType, Walk._method),
    (functools.partial, Walk._partial),
    ((property, staticmethod, classmethod, functools.cached_property), Walk._wrapper),
    (type(functools.lru_cache(lambda: 0)), Walk._cache),
    (_ITERATORS, Walk._iterator),
    ((dict, types.MappingProxyType, collections.UserDict), Walk._dict),
    ((list, collections.deque), Walk._list),
    (set, Walk._set),
    ((tuple, frozenset), lambda walk, value, path: walk._tuple(tuple(value), path)),
    ((bytearray, array.array, *_numpy("ndarray")), Walk._array),
    ((random.Random, *_numpy("random.Generator", "random.RandomState", "random.BitGenerator")), Walk._random),
    (contextvars.ContextVar, lambda walk, value, path: walk._follow(walk._note(notes.Variable(value, path)))),
    (threading.local, Walk._object),
    (weakref.ref, Walk._reference),
    (types.BuiltinFunctionType, Walk._builtin),
    (types.CellType, lambda walk, value, path: walk._follow(walk._note(notes.Fields(value, ("cell_contents",), path)))),
]
