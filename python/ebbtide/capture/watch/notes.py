"""Notes of what Python objects hold: compared later, and put back.

A capture runs the user's Python code once; the captured step runs none of it. What that code read is therefore part of the
capture, and what it wrote would be missing from every later step. A note is of one holder (a dict, a list, an object's attributes, a
function's cells, an array) and of what it held at a moment. Parts are compared by identity; numbers, strings and tuples of them by
type and value, so that 1 is not True, 0.0 is not -0.0 and a NaN is itself.
"""

from __future__ import annotations

import enum
import pickle
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from .. import saved_hooks

MISSING: Any = type("Missing", (), {"__repr__": lambda _: "nothing"})()
NUMBERS = (int, float, complex, bool)
ATOMS = frozenset({*NUMBERS, str, bytes, type(None), type(...), type(NotImplemented), range, slice, torch.dtype, torch.device,
                   torch.layout, torch.memory_format, torch.Size})


def is_atom(value: Any) -> bool:
    """Whether it can never change and is told from others by its value."""
    return type(value) in ATOMS or isinstance(value, enum.Enum)


def same(a: Any, b: Any) -> bool:
    """Whether code that reads one in the other's place sees no difference that this module tells."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if type(a) is float:
        return struct.pack("d", a) == struct.pack("d", b)
    if type(a) is complex:
        return same(a.real, b.real) and same(a.imag, b.imag)
    if type(a) in ATOMS:
        return bool(a == b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return isinstance(a, frozenset) and a == b and all(map(is_atom, a))


class Change(NamedTuple):
    """What a part of a holder was, and is."""

    note: Note
    key: Any
    old: Any
    new: Any

    @property
    def path(self) -> str:
        """'model.scale', 'model.sizes[2]'."""
        return self.note.path_of(self.key)

    def __str__(self) -> str:
        return f"{self.path}: {shown(self.old)}, then {shown(self.new)}"


def shown(value: Any) -> str:
    """In a few words, whatever it is."""
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if value is MISSING or is_atom(value) or (isinstance(value, tuple) and all(map(is_atom, value))):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return getattr(value, "__qualname__", None) or f"a {type(value).__name__}"


class Note:
    """Of one holder. `namespace`: its keys are names that code spells out. `carried`: parts that each step writes itself, by what tells whether a step can go
    on from a value of theirs; another one is no change."""

    namespace = False
    of_module = False  # the attributes of a torch.nn.Module

    def __init__(self, holder: Any, path: str) -> None:
        self.holder, self.path = holder, path
        self.kept = self.now()
        self.carried: dict[Any, Callable[[Any], bool]] = {}

    def now(self) -> dict[Any, Any]:
        """Part by part, what it holds."""
        raise NotImplementedError

    def put(self, key: Any, value: Any) -> None:
        """One part becomes `value`; MISSING takes it away."""
        raise NotImplementedError

    def path_of(self, key: Any) -> str:
        return f"{self.path}[{key!r}]"

    def changes(self) -> Iterator[Change]:
        now = self.now()
        for key, old in self.kept.items():
            new = now.get(key, MISSING)
            if not same(old, new) and not (key in self.carried and self.carried[key](new)):
                yield Change(self, key, old, new)
        for key, new in now.items():
            if key not in self.kept:
                yield Change(self, key, MISSING, new)

    def put_back(self) -> None:
        """Holds again what it held."""
        for change in list(self.changes()):
            self.put(change.key, change.old)


_ORDER: Any = type("Order", (), {"__repr__": lambda _: "the order of its keys"})()


class Entries(Note):
    """A dict, or what looks like one."""

    def now(self) -> dict[Any, Any]:
        return dict(self.holder)

    def changes(self) -> Iterator[Change]:
        yield from super().changes()
        if not self.namespace and self.kept.keys() == self.holder.keys() and list(self.kept) != list(self.holder):
            yield Change(self, _ORDER, tuple(self.kept), tuple(self.holder))

    def put(self, key: Any, value: Any) -> None:
        if key is _ORDER:
            entries = {each: self.holder[each] for each in value}
            self.holder.clear()
            self.holder.update(entries)
        elif value is MISSING:
            self.holder.pop(key, None)
        else:
            self.holder[key] = value

    def put_back(self) -> None:
        if any(True for _ in self.changes()):  # the order of its keys comes back too
            self.holder.clear()
            self.holder.update(self.kept)


class Attributes(Entries):
    """The __dict__ of an object."""

    namespace = True

    def path_of(self, key: Any) -> str:
        return f"{self.path}.{key}"


class Buffers(Entries):
    """A module's buffers by name: which there are. Others may take their place; the step finds them anew each time."""

    def changes(self) -> Iterator[Change]:
        for key in {**self.kept, **self.holder}:
            old, new = self.kept.get(key), self.holder.get(key)
            if (old is None) is not (new is None):
                yield Change(self, key, old, new)


class Globals(Attributes):
    """Some names of a module's globals, which grow: by `name_too`."""

    def __init__(self, holder: dict[str, Any], path: str) -> None:
        self.names: set[str] = set()
        super().__init__(holder, path)

    def now(self) -> dict[Any, Any]:
        return {name: self.holder.get(name, MISSING) for name in self.names}

    def name_too(self, name: str) -> None:
        if name not in self.names:
            self.names.add(name)
            self.kept[name] = self.holder.get(name, MISSING)

    def put_back(self) -> None:
        Note.put_back(self)


class ClassAttributes(Attributes):
    """The __dict__ of a class, which only the class itself can write."""

    def __init__(self, of: type, path: str) -> None:
        self.of = of
        super().__init__(of.__dict__, path)

    def now(self) -> dict[Any, Any]:
        return {name: value for name, value in self.holder.items() if name not in ("__dict__", "__weakref__", "__doc__", "__annotations__")}

    def put(self, key: Any, value: Any) -> None:
        if value is MISSING:
            delattr(self.of, key)
        else:
            setattr(self.of, key, value)

    def put_back(self) -> None:
        Note.put_back(self)


class Items(Note):
    """A list or a deque."""

    def now(self) -> dict[Any, Any]:
        return dict(enumerate(self.holder))

    def put_all(self, values: list[Any]) -> None:
        """Holds these, in this order."""
        self.holder.clear()
        self.holder.extend(values)

    def put_back(self) -> None:
        if any(True for _ in self.changes()):
            self.holder.clear()
            self.holder.extend(self.kept.values())


class Members(Note):
    """A set."""

    def now(self) -> dict[Any, Any]:
        return {element: element for element in self.holder}

    def put_back(self) -> None:
        if any(True for _ in self.changes()):
            self.holder.clear()
            self.holder.update(self.kept)


class Fields(Note):
    """Some attributes of an object that are not in a dict: slots, a function's code, a cell's contents, a tensor's hooks."""

    def __init__(self, holder: Any, names: tuple[str, ...], path: str) -> None:
        self.names = names
        super().__init__(holder, path)

    def now(self) -> dict[Any, Any]:
        return {name: field(self.holder, name) for name in self.names}

    def can_put(self, key: Any) -> bool:
        return key not in ("__dict__", "_backward_hooks", "_post_accumulate_grad_hooks")

    def put(self, key: Any, value: Any) -> None:
        if value is MISSING:
            delattr(self.holder, key)
        elif self.can_put(key):
            setattr(self.holder, key, value)

    def path_of(self, key: Any) -> str:
        return self.path if key == "cell_contents" else f"{self.path}.{key}"


class Contents(Note):
    """An array's bytes, and their form."""

    def now(self) -> dict[Any, Any]:
        view = memoryview(self.holder)
        return {"contents": (view.format, view.shape, view.tobytes())}

    def path_of(self, key: Any) -> str:
        return self.path

    def put_back(self) -> None:
        for _ in self.changes():
            kind, shape, contents = self.kept["contents"]
            view = memoryview(self.holder)
            if (view.format, view.shape) == (kind, shape) and view.c_contiguous and not view.readonly:
                view.cast("B")[:] = contents


class Variable(Note):
    """A contextvars.ContextVar, in the present context."""

    def now(self) -> dict[Any, Any]:
        return {"value": self.holder.get(MISSING)}

    def put(self, key: Any, value: Any) -> None:
        if value is not MISSING:
            self.holder.set(value)

    def path_of(self, key: Any) -> str:
        return self.path


class Form(Note):
    """What code may ask a tensor that is neither parameter nor buffer, apart from its values."""

    def now(self) -> dict[Any, Any]:
        t = self.holder
        return {"form": (t.shape, t.stride() if t.layout is torch.strided else None, t.dtype, t.device, t.requires_grad)}

    def path_of(self, key: Any) -> str:
        return f"the form of {self.path}"

    def put_back(self) -> None:
        pass  # what a fake is asked never changes the user's tensor


class SavedTensorsHooks(Note):
    """What packs and unpacks the tensors that autograd saves here and now."""

    def now(self) -> dict[Any, Any]:
        return {"hooks": saved_hooks.top()}

    def path_of(self, key: Any) -> str:
        return self.path

    def put_back(self) -> None:
        pass  # contexts end where they began


class Cache(Note):
    """Of functools.lru_cache, which holds what its function returned. None of it counts as read or written, as the function would return the same again;
    but what a capture has left there are its fakes, so it is emptied where the capture has made entries."""

    def __init__(self, holder: Any, path: str) -> None:
        super().__init__(holder, path)
        self._misses = holder.cache_info().misses

    def now(self) -> dict[Any, Any]:
        return {}

    def put_back(self) -> None:
        if self.holder.cache_info().misses != self._misses:
            self.holder.cache_clear()


class RandomState(Note):
    """A source of random numbers of Python's or NumPy's: only a draw, or a seed, changes it."""

    def __init__(self, holder: Any, read: Any, write: Any, path: str) -> None:
        self._read, self._write, self._state = read, write, read(holder)
        super().__init__(holder, path)

    def now(self) -> dict[Any, Any]:
        return {"state": pickle.dumps(self._read(self.holder))}

    def path_of(self, key: Any) -> str:
        return f"the random state of {self.path}"

    def put_back(self) -> None:
        self._write(self.holder, self._state)


def field(holder: Any, name: str) -> Any:
    """An attribute, or MISSING: an empty cell raises ValueError."""
    try:
        return getattr(holder, name, MISSING)
    except ValueError:
        return MISSING
