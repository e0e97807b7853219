"""The watch over one capture: what the user's code has read, what it has written, what it has asked of the world."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules import module as torch_modules

from . import notes
from .guards import Guards
from .notes import Change, is_atom
from .observe import Asked, Observer
from .walk import Walk, is_library, random_note

if TYPE_CHECKING:
    from ..step import CapturedStep

_HOOKS_OF_ALL_MODULES = [name for name in vars(torch_modules) if name.startswith("_global_") and isinstance(getattr(torch_modules, name), dict)]
_SHOWN_IN_NO_STEP = ("expected Python code without effects of its own, as the steps that follow run none of it")
_STORES = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF")
# In the globals of torch's own code, what a user may replace; what else is there, it makes when it needs it.
_REPLACED = (types.FunctionType, types.BuiltinFunctionType, type, bool)


Made = Callable[[Any, Sequence[torch.Tensor]], Any]  # of what a step gives, and of its batch: a value


class Effect(NamedTuple):
    """That a part of a holder, or all of a list, is written when the step is taken."""

    note: notes.Note
    key: Any
    old: Any
    new: Any  # of the capture
    made: Made

    def apply(self, results: Any, batch: Sequence[torch.Tensor]) -> None:
        value = self.made(results, batch)
        if isinstance(self.note, notes.Items):
            self.note.put_all(value)
        else:
            self.note.put(self.key, value)


class Watch:
    """`roots`: what code is called, by the names that messages use. Without `reads`, only what is written counts."""

    def __init__(self, roots: Mapping[str, Any], reads: bool = True) -> None:
        self._roots, self._reads = roots, reads
        self._walk = Walk()
        self._observer = Observer(self._walk)
        self._lengths: dict[int, int] = {}  # of lists, when the capture's code had run
        self.changes: list[Change] = []  # what the capture's code wrote, and what has been put back
        self._add_roots(self._walk)
        self._from_before = self._walk.ids()

    @contextlib.contextmanager
    def over(self) -> Iterator[None]:
        """Around the capture. Afterwards the user's objects hold what they held before."""
        try:
            yield
        finally:
            changes = [change for note in self._walk.notes if not _is_librarys(note) for change in note.changes()]
            self._lengths = {id(note): len(note.holder) for note in self._walk.notes if isinstance(note, notes.Items)}
            for note in {id(change.note): change.note for change in changes}.values():
                note.put_back()
            for note in self._walk.notes:
                if isinstance(note, notes.Cache):
                    note.put_back()
            self.changes = [change for change in changes if not self._is_torchs_own(change)]

    def observing(self) -> contextlib.AbstractContextManager[None]:
        """Around all calls of the user's code in it."""
        return self._observer.observing() if self._reads else contextlib.nullcontext()

    def codes_run(self) -> int:
        """How many functions of the user's have run so far."""
        return len(self._observer.codes)

    def refusal(self) -> str | None:
        """The line of the user's that does what no later step would do, and what it does; None: nothing does."""
        for asked in self._observer.cannot:
            return f"{asked.line}: {asked.what} while the step runs; {_SHOWN_IN_NO_STEP}"
        for change in self.changes:
            where = self._line_that_wrote(change)
            if isinstance(change.note, notes.RandomState):
                return f"{where}: random numbers of {change.note.path} are drawn while the step runs; expected torch's"
            return f"{where}: {change.path} is changed by the step ({shown_change(change)}); {_SHOWN_IN_NO_STEP}"
        return None

    def kept_tensors(self) -> list[torch.Tensor]:
        """Tensors of the capture that the code has left in what it wrote. To be called before the capture ends."""
        found: dict[int, torch.Tensor] = {}
        for note in self._walk.notes:
            for change in () if _is_librarys(note) else note.changes():
                if not self._is_torchs_own(change):
                    found |= {id(fake): fake for fake in _fakes_in(change.new) if not fake.requires_grad}
        return list(found.values())

    def effects(self, captured: CapturedStep) -> list[Effect] | None:
        """What the code wrote, made anew by each step: numbers and strings; tensors that the step gives, or that depend on no data (masks and tables
        that a model keeps when it has made them); the user's own objects; lists, tuples and dicts of them. None: something else was written."""
        if self._observer.cannot:
            return None
        effects: list[Effect] = []
        for note in {id(change.note): change.note for change in self.changes}.values():
            changes = [change for change in self.changes if change.note is note]
            if isinstance(note, notes.Items):
                values = list(note.kept.values())[: max(self._lengths[id(note)], 0)]
                values += [notes.MISSING] * (self._lengths[id(note)] - len(values))
                for change in changes:
                    if change.key < len(values):
                        values[change.key] = change.new
                changes = [Change(note, None, None, values)]
            elif not isinstance(note, (notes.Entries, notes.Fields)) or any(isinstance(note, notes.Fields) and not note.can_put(c.key) for c in changes):
                return None
            for change in changes:
                made = self._maker(change.new, captured)
                if made is None:
                    return None
                effects.append(Effect(note, change.key, change.old, change.new, made))
        return effects

    def counted(self, effect: Effect) -> Effect | None:
        """The effect as one that adds to what is there, where it counts and nothing the code does depends on the count; None: it is another."""
        name = effect.note.path if isinstance(effect.note, notes.Fields) else effect.key
        if type(effect.old) is not int or type(effect.new) is not int or not isinstance(effect.note, (notes.Attributes, notes.Fields)) or \
                not self._observer.only_counts(str(name)):
            return None
        note, key, more = effect.note, effect.key, effect.new - effect.old
        return effect._replace(made=lambda results, batch: note.now()[key] + more)

    def _maker(self, value: Any, captured: CapturedStep) -> Made | None:
        """How a step makes a value that its code wrote; None: it cannot."""
        if isinstance(value, FakeTensor):
            return self._tensor_maker(value, captured)
        if is_atom(value) or value is notes.MISSING or id(value) in self._from_before:
            return lambda results, batch: value
        if type(value) in (list, tuple):
            kind, parts = type(value), [self._maker(part, captured) for part in value]
            return None if None in parts else lambda results, batch: kind([part(results, batch) for part in parts])  # type: ignore[misc]
        if type(value) is dict:
            entries = {key: self._maker(part, captured) for key, part in value.items()}
            if None in entries.values() or not all(map(is_atom, entries)):
                return None
            return lambda results, batch: {key: part(results, batch) for key, part in entries.items()}  # type: ignore[misc]
        return None

    def _tensor_maker(self, fake: FakeTensor, captured: CapturedStep) -> Made | None:
        if fake.requires_grad:
            return None
        for place, given in enumerate(captured.batch):
            if fake is given:
                return lambda results, batch: batch[place]
        if id(fake) in captured.kept:
            number = captured.kept[id(fake)][1]
            return lambda results, batch: results.tensor(number)
        value = captured.value_of(fake) if fake.device.type == "cpu" else None
        return None if value is None else lambda results, batch: value.clone()

    def shows(self) -> list[Asked]:
        """What the user would see at each step of plain PyTorch, and sees at a capture alone."""
        return self._observer.shows

    def guards(self) -> Guards:
        """Of all that the code has read. To be called when nothing is left changed."""
        names, any_of_modules = self._observer.names, self._observer.reads_any_name
        walk = Walk(names, any_of_modules)
        self._add_roots(walk, random_state=False)
        for noted in self._observer.user_globals.values():
            note = notes.Globals(noted.holder, noted.path)
            walk.notes.append(note)
            for name in sorted(noted.names):
                walk.add_global(note, name)
        for function in self._functions_unseen(walk):
            walk.add(function, function.__qualname__)
        if self._observer.reads_environment:
            walk.add(os.environ, "os.environ")
        for found, named in self._observer.library.values():
            note = notes.Globals(found, str(found.get("__name__", "")))
            for name in named:
                if isinstance(found.get(name), _REPLACED):
                    note.name_too(name)
            walk.notes.append(note)
        return Guards([note for note in walk.notes if not isinstance(note, (notes.RandomState, notes.Cache))], names, any_of_modules, walk.refused)

    def _add_roots(self, walk: Walk, random_state: bool = True) -> None:
        for name in _HOOKS_OF_ALL_MODULES:
            walk.add(getattr(torch_modules, name), f"torch.nn.modules.module.{name}")
        for path, root in self._roots.items():
            walk.add(root, path)
        hooks = notes.SavedTensorsHooks(None, "what packs the tensors that autograd saves")
        walk.notes.append(hooks)
        walk.add(hooks.kept["hooks"], hooks.path)
        if random_state and self._reads:
            walk.notes.append(random_note(random._inst, "random"))
            numpy = sys.modules.get("numpy")
            if numpy is not None:
                walk.notes.append(random_note(numpy.random.mtrand._rand, "numpy.random"))

    def _functions_unseen(self, walk: Walk) -> list[types.FunctionType]:
        """Functions with cells of their own that ran and that no root leads to."""
        import gc

        codes = {id(code) for code in self._observer.codes if code.co_freevars and not code.co_name.startswith("<")}
        if not codes:
            return []
        return [f for f in gc.get_objects() if type(f) is types.FunctionType and id(f.__code__) in codes and not walk.knows(f)]

    def _is_torchs_own(self, change: Change) -> bool:
        """What torch's modules and hooks keep for themselves, and make anew in each forward pass: the flat weights of a recurrent
        layer, a normalized weight."""
        return isinstance(change.note, notes.Attributes) and not isinstance(change.note, notes.Globals) \
            and not self._observer.writes(str(change.key))

    def _line_that_wrote(self, change: Change) -> str:
        if isinstance(change.note, notes.RandomState):
            if change.note.path == "random" and any(self._observer.draws):
                return next(filter(None, self._observer.draws))
            names = {"random", "rand", "randn", "randint", "normal", "uniform", "choice", "shuffle", "permutation", "integers", "standard_normal"}
            return self._observer.line_of(names, ("LOAD_METHOD", "LOAD_ATTR", "LOAD_GLOBAL")) or "the model's code"
        names = {str(change.key), change.note.path.rpartition(".")[2].partition("[")[0], change.path.rpartition(".")[2].partition("[")[0]}
        stored = self._observer.line_of({str(change.key)}, _STORES)
        by_a_made_name = next(filter(None, self._observer.sets), None)
        return stored or by_a_made_name or self._observer.line_of(names, (*_STORES, "LOAD_ATTR", "LOAD_GLOBAL", "LOAD_DEREF")) or "the model's code"


def _fakes_in(value: Any) -> list[FakeTensor]:
    if isinstance(value, FakeTensor):
        return [value]
    parts = value.values() if type(value) is dict else value if type(value) in (list, tuple) else ()
    return [fake for part in parts for fake in _fakes_in(part)]


def shown_change(change: Change) -> str:
    return f"{notes.shown(change.old)} before, {notes.shown(change.new)} after"


def _is_librarys(note: notes.Note) -> bool:
    """Torch's and Python's own objects keep what they please."""
    if isinstance(note, notes.ClassAttributes):
        file = getattr(sys.modules.get(note.of.__module__), "__file__", None)
        return file is None and note.of.__module__ != "__main__" or file is not None and is_library(file)
    return False


def watch_of(model: torch.nn.Module, loss_fn: Any, **more: Any) -> Mapping[str, Any]:
    """The roots of a step."""
    return {"model": model, "loss_fn": loss_fn} | {name: value for name, value in more.items() if value is not None}
