"""What a captured step depends on of Python's objects, compared quickly before each step.

The quick comparison is by identity, many parts to a call of C code. Where an identity differs, the part is compared as notes.py
compares, and a part that no executed code names does not count; if all is the same after all, the new identities are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter, is_
from typing import Any

from . import notes
from .notes import Change, Note


class Guards:
    """Of one capture. `names`: attributes that executed code names; `any_of_modules`: those of modules count whatever they are called.
    `refused`: (path, why) of what cannot be compared."""

    def __init__(self, noted: Sequence[Note], names: set[str], any_of_modules: bool, refused: list[tuple[str, str]]) -> None:
        self.refused = refused
        self._notes, self._names, self._any_of_modules = noted, names, any_of_modules
        self._arrange()

    def __len__(self) -> int:
        """Parts that are compared."""
        return sum(max(len(note.kept), 1) for note in self._notes)

    def hold(self) -> bool:
        """Whether all that the capture's code read is as it was."""
        if self._quickly():
            return True
        if self.first_change() is not None:
            return False
        for note in self._notes:
            note.kept = note.now()
        self._arrange()
        return True

    def covers(self, note: Note, key: Any) -> bool:
        """Whether a part is among what is compared."""
        return any(self._counts(mine, key) for mine in self._notes_of(note))

    def carry(self, note: Note, key: Any, fits: Callable[[Any], bool]) -> bool:
        """From now on another value of a part is no change, where it fits: steps write it."""
        mine = [each for each in self._notes_of(note) if key in each.kept]
        for each in mine:
            each.carried[key] = fits
        self._arrange()
        return bool(mine)

    def is_alone(self, note: Note, key: Any) -> bool:
        """Whether what a part holds is in no other place: code cannot tell it from another by identity."""
        value, places = note.kept[key], 0
        for each in self._notes:
            places += sum(part is value for part in each.kept.values())
        return places == 1 and not getattr(value, "__dict__", None)

    def forget(self, holder: Any) -> None:
        """Of what it holds nothing is compared any more."""
        self._notes = [each for each in self._notes if each.holder is not holder]
        self._arrange()

    def _notes_of(self, note: Note) -> list[Note]:
        return [mine for mine in self._notes if type(mine) is type(note) and (
            mine.of is note.of if isinstance(mine, notes.ClassAttributes) and isinstance(note, notes.ClassAttributes) else mine.holder is note.holder)]

    def _counts(self, note: Note, key: Any) -> bool:
        if isinstance(note, notes.Globals):
            return key in note.names
        return not note.namespace or key in self._names or (self._any_of_modules and note.of_module)

    def first_change(self) -> Change | None:
        """The first part that differs and that executed code names."""
        for note in self._notes:
            for change in note.changes():
                if self._counts(note, change.key):
                    return change
        return None

    def _arrange(self) -> None:
        """Notes by the way in which they are compared."""
        self._empty: list[Any] = []  # dicts and lists that hold nothing
        self._dicts: list[tuple[Any, list[Any], list[Any]]] = []
        self._buffers: list[tuple[Any, list[str], list[str]]] = []  # names of all, and of those that are None
        self._lists: list[tuple[Any, list[Any]]] = []
        self._globals: list[tuple[dict[str, Any], list[str], list[Any]]] = []
        self._others: list[Note] = []
        fields: dict[str, tuple[list[Any], list[Any]]] = {}
        for note in self._notes:
            if note.carried:
                self._others.append(note)
            elif isinstance(note, notes.Fields):
                for name, value in note.kept.items():
                    holders, values = fields.setdefault(name, ([], []))
                    holders.append(note.holder)
                    values.append(value)
            elif isinstance(note, notes.Globals):
                self._globals.append((note.holder, list(note.kept), list(note.kept.values())))
            elif isinstance(note, (notes.Entries, notes.Items, notes.Members)) and not isinstance(note, notes.ClassAttributes) and not note.kept:
                self._empty.append(note.holder)
            elif isinstance(note, notes.Buffers):
                self._buffers.append((note.holder, list(note.kept), [name for name, buffer in note.kept.items() if buffer is None]))
            elif isinstance(note, notes.Entries):
                self._dicts.append((note.holder, list(note.holder), list(note.holder.values())))
            elif isinstance(note, notes.Items):
                self._lists.append((note.holder, list(note.kept.values())))
            else:
                self._others.append(note)
        self._fields = [(attrgetter(name), holders, values) for name, (holders, values) in fields.items() if not any(v is notes.MISSING for v in values)]
        self._some_missing = [(name, holders, values) for name, (holders, values) in fields.items() if any(v is notes.MISSING for v in values)]

    def _quickly(self) -> bool:
        if any(self._empty):
            return False
        try:
            for get, holders, values in self._fields:
                if not all(map(is_, map(get, holders), values)):
                    return False
        except (AttributeError, ValueError):  # an attribute that is gone, a cell that is empty
            return False
        for name, holders, values in self._some_missing:
            for holder, value in zip(holders, values):
                if notes.field(holder, name) is not value:
                    return False
        for found, keys, values in self._dicts:
            if len(found) != len(keys) or not all(map(is_, found.values(), values)) or not all(map(is_, found, keys)):
                return False
        for found, keys, absent in self._buffers:
            if list(found) != keys or any(map(is_, found.values(), repeat(None))) is not bool(absent):
                return False
        for listed, values in self._lists:
            if len(listed) != len(values) or not all(map(is_, listed, values)):
                return False
        for scope, names, values in self._globals:
            for name, value in zip(names, values):
                if scope.get(name, notes.MISSING) is not value:
                    return False
        return not any(True for note in self._others for _ in note.changes())
