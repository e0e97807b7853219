"""Which code runs while a step is captured, and what it asks of the world that no note can hold: clocks, files, torch's random state.

Python tells a profile function of each call. Of a code object that runs for the first time, the globals that it names are noted
before it has run; names that any executed code spells are those whose attributes count as read. What happens inside of a
recorded ATen call is the capture's own affair, and not observed.
"""

from __future__ import annotations

import contextlib
import dis
import os
import random
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from ..errors import shown_line
from . import notes
from .walk import Walk, is_library

_CHECKPOINT = "torch/utils/checkpoint.py"  # it takes and sets the random state; random ops in backward are refused elsewhere
_CAPTURE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "step.py")  # who calls the user's code
_PACKAGE = os.path.dirname(os.path.dirname(_CAPTURE)) + os.sep
_CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns",
           "thread_time", "now", "utcnow", "today", "localtime", "gmtime"}
# name of a C function -> (modules or types that it counts for, what it does)
_ASKED: dict[str, tuple[tuple[str, ...], str]] = {name: (("time", "datetime"), "reads a clock") for name in _CLOCKS}
_ASKED |= {"urandom": (("posix",), "draws random bytes"), "getrandom": (("posix",), "draws random bytes"),
           "open": (("_io", "io"), "opens a file"), "input": (("builtins",), "reads the terminal")}
_GENERATOR_CALLS = {"manual_seed", "seed", "set_state", "get_state", "initial_seed", "set_offset", "get_offset", "graphsafe_set_state", "graphsafe_get_state"}
_SHOWN = {"print": "prints", "write": "writes"}
_LOGGING = ("logging/__init__.py", "callHandlers")  # what every message of Python's logging passes
_READS_ANY = {"getattr", "hasattr", "vars", "__getattribute__"}  # attributes by names that may be made as it runs
_SETS = {"setattr", "__setattr__", "update", "vars"}
_STORES = ("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF", "DELETE_ATTR", "DELETE_GLOBAL")
_COUNTED = {"LOAD_ATTR": "STORE_ATTR", "LOAD_GLOBAL": "STORE_GLOBAL", "LOAD_DEREF": "STORE_DEREF"}  # what `n += 1` does before and after
_LOAD_ATTRIBUTE = {"LOAD_ATTR", "LOAD_METHOD"}
_ATTRIBUTE_SHIFT = 1 if sys.version_info >= (3, 12) else 0  # the lowest bit then tells a method from an attribute
_GLOBAL_SHIFT = int(sys.version_info >= (3, 11))
_GLOBAL = {"LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "LOAD_NAME"}


class Asked(NamedTuple):
    """A line of the user's, and what it does there."""

    line: str
    what: str


class Observer:
    """`walk` is given what code of the user's names; `names` and `library` (globals of torch's own code) grow meanwhile."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.names: set[str] = set()
        self.library_names: set[str] = set()  # of them, those that code of torch's, NumPy's and Python's own spells
        self.codes: list[types.CodeType] = []  # the user's, in the order in which they first ran
        self.library: dict[int, tuple[dict[str, Any], set[str]]] = {}
        self.user_globals: dict[int, notes.Globals] = {}
        self.cannot: list[Asked] = []  # what no later step would do again
        self.shows: list[Asked] = []  # what only the capture shows
        self.draws: list[str] = []  # lines that draw from Python's random numbers
        self.sets: list[str] = []  # lines of the user's that set attributes by names that are made there
        self.reads_environment = False
        self.reads_any_name = False  # attributes are read by names that no code spells
        self._known: set[types.CodeType] = set()

    @contextlib.contextmanager
    def observing(self) -> Iterator[None]:
        before: Any = sys.getprofile()
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)
            if hasattr(before, "enable"):  # cProfile's
                before.enable()
            elif before is not None:
                sys.setprofile(before)

    def line_of(self, names: set[str], opcodes: tuple[str, ...]) -> str | None:
        """The first line of the user's executed code that does one of `opcodes` with one of the names."""
        for opcode in opcodes:
            for code in self.codes:
                line = code.co_firstlineno
                for instruction in dis.get_instructions(code):
                    line = instruction.starts_line or line
                    if instruction.opname == opcode and instruction.argval in names:
                        return shown_line(code.co_filename, line)
        return None

    def writes(self, name: str) -> bool:
        """Whether the user's code may have written an attribute or a global of this name."""
        return bool(self.sets) or self.line_of({name}, _STORES) is not None

    def only_counts(self, name: str) -> bool:
        """Whether all that executed code does with a name is to add a number to what it names, in place: nothing depends on the value."""
        if self.reads_any_name or self.sets or name in self.library_names:
            return False
        adds = False
        for code in self.codes:
            if name in code.co_consts:
                return False
            steps = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "PRECALL", "EXTENDED_ARG")]
            for place, step in enumerate(steps):
                if step.argval != name or step.opname in _STORES[:3] or step.opname in ("MAKE_CELL", "COPY_FREE_VARS", "LOAD_CLOSURE"):
                    continue
                number, plus, store = steps[place + 1: place + 4] if len(steps) > place + 4 else (step,) * 3
                if store.opname == "SWAP":
                    store = steps[place + 4]
                stored = _COUNTED.get(step.opname), name
                if type(number.argval) is not int or plus.argrepr != "+=" or (store.opname, store.argval) != stored:
                    return False
                adds = True
        return adds

    def _event(self, frame: types.FrameType, event: str, function: Any) -> None:
        if event == "call":
            if frame.f_code not in self._known:
                self._known.add(frame.f_code)
                self._first_run(frame)
        elif event == "c_call":
            name = function.__name__
            if name in _ASKED or name in _GENERATOR_CALLS or name in _SHOWN:
                self._c_call(frame, name, function)
            elif (name in _SETS or name in _READS_ANY) and not is_library(frame.f_code.co_filename):
                if name in _SETS:
                    self.sets.append(_user_line(frame) or "")
                if name in _READS_ANY and not self.reads_any_name:
                    self.reads_any_name = not _names_a_constant(frame)
            elif isinstance(function.__self__, random.Random):
                self.draws.append(_user_line(frame) or "")

    def _c_call(self, frame: types.FrameType, name: str, function: Any) -> None:
        owner = function.__self__
        if isinstance(owner, torch.Generator):
            if name in _GENERATOR_CALLS and not _inside(frame, _CHECKPOINT):
                self._asked(self.cannot, frame, f"calls {name} of a torch.Generator: the random state is set or read")
        elif name in _SHOWN:
            if (function is print or type(owner).__module__ == "_io") and not is_library(frame.f_code.co_filename):
                self._asked(self.shows, frame, _SHOWN[name])
        elif name in _ASKED and (not is_library(frame.f_code.co_filename) or name in ("urandom", "getrandom")):
            modules, what = _ASKED[name]
            of = getattr(function, "__module__", None) or (owner if isinstance(owner, type) else type(owner)).__module__
            if of in modules:
                self._asked(self.cannot, frame, what)

    def _asked(self, where: list[Asked], frame: types.FrameType, what: str) -> None:
        line = _user_line(frame)
        if line is not None:
            where.append(Asked(line, what))

    def _first_run(self, frame: types.FrameType) -> None:
        code, found = frame.f_code, frame.f_globals
        library = is_library(code.co_filename)
        self.names.update(code.co_names, (c for c in code.co_consts if type(c) is str))
        if library:
            if not code.co_filename.startswith(_PACKAGE):  # ours reads no attribute of the user's by name
                self.library_names.update(code.co_names, (c for c in code.co_consts if type(c) is str))
            if code.co_name == _LOGGING[1] and code.co_filename.endswith(_LOGGING[0]):
                self._asked(self.shows, frame, "logs")
            if code.co_filename in (os.__file__, "<frozen os>"):
                self.walk.add(os.environ, "os.environ")
                self.reads_environment = True
            self.library.setdefault(id(found), (found, set()))[1].update(_global_names(code))
            return
        self.codes.append(code)
        self.reads_any_name |= "__dict__" in code.co_names
        for name, chain in _global_chains(code):
            self._name(found, name, chain)
        for module in _imported(code, found):
            for name in code.co_names:
                if name in vars(module):
                    self._attribute(module, name, [])

    def _name(self, found: dict[str, Any], name: str, chain: list[str]) -> None:
        """A name of a module's globals; where it is a module itself, the attribute that is asked of it."""
        note = self.user_globals.get(id(found))
        if note is None:
            note = self.user_globals[id(found)] = notes.Globals(found, str(found.get("__name__", "")))
            self.walk.notes.append(note)
        self.walk.add_global(note, name)
        value = found.get(name)
        if isinstance(value, types.ModuleType) and chain:
            self._attribute(value, chain[0], chain[1:])

    def _attribute(self, module: types.ModuleType, name: str, chain: list[str]) -> None:
        """A name that code asks of a module, and what it asks of that."""
        if not is_library(getattr(module, "__file__", None) or "<frozen"):
            self._name(vars(module), name, chain)
            return
        self.library.setdefault(id(vars(module)), (vars(module), set()))[1].add(name)
        inner = vars(module).get(name)
        if isinstance(inner, types.ModuleType):
            if chain:
                self._attribute(inner, chain[0], chain[1:])
        elif inner is os.environ:
            self.walk.add(inner, "os.environ")
            self.reads_environment = True


def _global_names(code: types.CodeType) -> set[str]:
    return {name for name, _ in _global_chains(code)}


def _global_chains(code: types.CodeType) -> list[tuple[str, list[str]]]:
    """('torch', ['nn', 'functional', 'relu']) for each place where the code names a global."""
    chains: list[tuple[str, list[str]]] = []
    growing = False
    for *_, opcode, argument in dis._unpack_opargs(code.co_code):  # type: ignore[attr-defined]
        operation = dis.opname[opcode]
        if operation in _GLOBAL:
            place = argument >> _GLOBAL_SHIFT if operation == "LOAD_GLOBAL" else argument
            chains.append((code.co_names[place], []))
            growing = True
        elif growing and operation in _LOAD_ATTRIBUTE:
            chains[-1][1].append(code.co_names[argument >> _ATTRIBUTE_SHIFT])
        elif operation not in ("CACHE", "EXTENDED_ARG"):
            growing = False
    return chains


def _imported(code: types.CodeType, found: dict[str, Any]) -> list[types.ModuleType]:
    """Modules that the code imports itself."""
    modules = []
    for *_, opcode, argument in dis._unpack_opargs(code.co_code):  # type: ignore[attr-defined]
        if dis.opname[opcode] == "IMPORT_NAME":
            name = code.co_names[argument]
            for full in (name, name.partition(".")[0], f"{found.get('__package__')}.{name}"):
                modules += [sys.modules.get(full), *(sys.modules.get(f"{full}.{inner}") for inner in code.co_names)]
    return [module for module in modules if module is not None]


def _names_a_constant(frame: types.FrameType) -> bool:
    """Of a call that is about to be made in the frame: whether its last argument, or the one before, is a string that the code spells."""
    before = [i for i in dis.get_instructions(frame.f_code) if i.offset < frame.f_lasti and i.opname not in ("CACHE", "PRECALL", "EXTENDED_ARG", "KW_NAMES")]
    last = [i.opname == "LOAD_CONST" and type(i.argval) is str for i in before[-2:]]
    return bool(last) and (last[-1] or (len(last) > 1 and last[0] and before[-1].opname == "LOAD_CONST"))


def _user_line(frame: types.FrameType | None) -> str | None:
    while frame is not None and frame.f_code.co_filename != _CAPTURE:
        if not is_library(frame.f_code.co_filename):
            return shown_line(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return None


def _inside(frame: types.FrameType | None, path: str) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.endswith(path):
            return True
        frame = frame.f_back
    return False


def pause() -> Any:
    """From here on an observer sees nothing, until what is returned is given to `resume`. Called once or twice for every ATen call."""
    profile = sys.getprofile()
    if profile is None or not isinstance(getattr(profile, "__self__", None), Observer):
        return None
    sys.setprofile(None)
    return profile


def resume(paused: Any) -> None:
    if paused is not None:
        sys.setprofile(paused)
