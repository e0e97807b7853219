"""ebbtide.step and what Python code reads: a value that changes between two steps is in the next step, as it is in plain PyTorch."""

import contextvars
import enum
import os
import threading
import types

import numpy
import pytest

torch = pytest.importorskip("torch")

from support import guard_cases  # noqa: E402
from support.guard_cases import Net, Program, compare, squared  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")

WEIGHT = 0.5  # of a loss; a test changes it
SETTINGS = {"weight": 0.5, "inner": [1.0, 2.0]}
VARIABLE, OWN = contextvars.ContextVar("variable", default=1.0), threading.local()
OWN.weight = 1.0
CONFIG = types.SimpleNamespace(weight=0.5)


class Kind(enum.Enum):
    PLAIN, SQUARED = 1, 2


class Slotted:
    __slots__ = ("weight",)

    def __init__(self):
        self.weight = 1.0


def with_import(model, y):
    from support import guard_cases as cases

    return y * cases.FACTOR


class Scaled(Net):
    """Whatever `how` names decides what it computes."""

    factor = 2.0  # of the class

    def __init__(self, how=None):
        super().__init__()
        self.how = how
        self.items, self.table, self.kind, self.flag = [1.0, 3.0], {"a": 0.5}, Kind.PLAIN, True
        self.array = numpy.array([1.0, 2.0])
        self.shift, self.switch = torch.ones(4), torch.tensor(True)
        self.options = types.SimpleNamespace(deep={"weight": 0.25})
        self.set_of = {2, 3}
        self.criterion = nn.CrossEntropyLoss()
        self.slotted, self.layers = Slotted(), nn.ModuleList([nn.ReLU()])
        self.shifted = types.FunctionType((lambda y, by=1.0: y + by).__code__, globals(), "shifted", (1.0,))

    def forward(self, x):
        return self.how(self, super().forward(x))


def set_(path, *values):
    """Between steps, an attribute of the model becomes one of `values` in turn."""
    def change(program, number):
        *holders, name = path.split(".")
        holder = program.model
        for each in holders:
            holder = getattr(holder, each) if hasattr(holder, each) else holder[each]
        value = values[(number - 1) % len(values)]
        if isinstance(holder, dict):
            holder[name] = value
        else:
            setattr(holder, name, value)
    return change


def do(function):
    return lambda program, number: function(program.model)


# What the forward pass computes from what it reads, and what changes between steps.
READS = {
    "dropout.p": (None, set_("drop.p", 0.5, 0.1)),
    "dropout.p to 0": (None, set_("drop.p", 0.0, 0.0, 0.5)),
    "batch norm's momentum": (None, set_("norm.momentum", 0.5, 0.01)),
    "batch norm's eps": (None, set_("norm.eps", 1e-2)),
    "batch norm's statistics": (None, set_("norm.track_running_stats", False, True)),
    "a number": (None, set_("scale", 2.5, 0.1)),
    "a number, there and back": (None, set_("scale", 2.5, 1.5)),
    "an int for a float": (None, set_("scale", 1, True, 1.0)),
    "minus zero": (lambda m, y: y + torch.full((4,), m.scale).reciprocal().atan(), set_("scale", 0.0, -0.0)),
    "not a number": (lambda m, y: y if m.scale == m.scale else y * 2, set_("scale", float("nan"), 1.0)),
    "an item of a list": (lambda m, y: y * m.items[1], do(lambda m: m.items.__setitem__(1, m.items[1] * 2))),
    "a longer list": (lambda m, y: y * len(m.items), do(lambda m: m.items.append(1.0))),
    "an entry of a dict": (lambda m, y: y * m.table["a"], do(lambda m: m.table.update(a=m.table["a"] + 1))),
    "a new entry": (lambda m, y: y * m.table.get("b", 1.0), set_("table.b", 3.0)),
    "a dict in an object": (lambda m, y: y * m.options.deep["weight"], do(lambda m: m.options.deep.update(weight=m.options.deep["weight"] * 2))),
    "a set": (lambda m, y: y * len(m.set_of), do(lambda m: m.set_of.add(max(m.set_of) + 1))),
    "an enum": (lambda m, y: y if m.kind is Kind.PLAIN else y ** 2, set_("kind", Kind.SQUARED, Kind.PLAIN)),
    "a flag": (lambda m, y: y if m.flag else -y, set_("flag", False, True)),
    "a string": (lambda m, y: F.silu(y) if m.table.get("act") == "silu" else y, set_("table.act", "silu", "none")),
    "an array of NumPy": (lambda m, y: y * float(m.array[1]), do(lambda m: m.array.__setitem__(1, m.array[1] + 1))),
    "a class attribute": (lambda m, y: y * m.factor, lambda p, n: setattr(Scaled, "factor", 2.0 + n)),
    "a class attribute that is hidden": (lambda m, y: y * m.factor, set_("factor", 7.0)),
    "a tensor that is no buffer": (lambda m, y: y * m.shift, set_("shift", torch.full((4,), 2.0), torch.full((4,), 3.0))),
    "its values": (lambda m, y: y * m.shift, do(lambda m: m.shift.mul_(1.5))),
    "its values by NumPy": (lambda m, y: y * m.shift, do(lambda m: m.shift.numpy().__imul__(1.5))),
    "its type": (lambda m, y: y * m.shift.to(y.dtype), set_("shift", torch.full((4,), 2, dtype=torch.int64))),
    "a branch on a tensor": (lambda m, y: y if m.switch else -y, set_("switch", torch.tensor(False), torch.tensor(True))),
    "a branch on its values": (lambda m, y: y if m.switch else -y, do(lambda m: m.switch.logical_not_())),
    "a number of a tensor": (lambda m, y: y * m.shift[0].item(), do(lambda m: m.shift.add_(1))),
    "an attribute by a made name": (lambda m, y: y * getattr(m, f"sca{'le'[:2]}"), set_("scale", 2.0, 3.0)),
    "all attributes": (lambda m, y: y * sum(v for v in vars(m).values() if type(v) is float), set_("unnamed", 2.0, 3.0)),
    "a slot": (lambda m, y: y * m.slotted.weight, do(lambda m: setattr(m.slotted, "weight", m.slotted.weight + 1))),
    "a context variable": (lambda m, y: y * VARIABLE.get(), lambda p, n: VARIABLE.set(1.0 + n)),
    "a thread's own": (lambda m, y: y * OWN.weight, lambda p, n: setattr(OWN, "weight", 1.0 + n)),
    "a default argument": (lambda m, y: m.shifted(y), do(lambda m: setattr(m.shifted, "__defaults__", (m.shifted.__defaults__[0] + 1,)))),
    "a list of modules": (lambda m, y: [y := layer(y) for layer in m.layers][-1], do(lambda m: m.layers.append(nn.Tanh()))),
    "another function": (lambda m, y: m.how2(y) if hasattr(m, "how2") else y, set_("how2", torch.sin, torch.cos)),
    "another forward": (None, do(lambda m: setattr(m, "forward", lambda x: m.last(m.first(x))))),
    "another forward of the class": (None, do(lambda m: setattr(type(m.drop), "forward", lambda self, x: F.dropout(x, 0.75, self.training)))),
    "a global": (lambda m, y: y * WEIGHT, lambda p, n: globals().update(WEIGHT=0.5 + n)),
    "a global dict": (lambda m, y: y * SETTINGS["weight"], lambda p, n: SETTINGS.update(weight=0.5 + n)),
    "a list in a global dict": (lambda m, y: y * SETTINGS["inner"][0], lambda p, n: SETTINGS["inner"].__setitem__(0, 0.5 + n)),
    "a global object": (lambda m, y: y * CONFIG.weight, lambda p, n: setattr(CONFIG, "weight", 0.5 + n)),
    "another module's global": (lambda m, y: y * guard_cases.FACTOR, lambda p, n: setattr(guard_cases, "FACTOR", 0.5 + n)),
    "the environment": (lambda m, y: y * float(os.environ["EBBTIDE_TEST_FACTOR"]), lambda p, n: os.environ.update(EBBTIDE_TEST_FACTOR=str(n))),
    "the environment, by getenv": (lambda m, y: y * float(os.getenv("EBBTIDE_TEST_FACTOR")), lambda p, n: os.environ.update(EBBTIDE_TEST_FACTOR=str(n))),
    "a module imported there": (with_import, lambda p, n: setattr(guard_cases, "FACTOR", 0.5 + n)),
    "label smoothing": (lambda m, y: m.criterion(y, y.detach().softmax(1)), set_("criterion.label_smoothing", 0.1, 0.2)),
    "a function of torch's": (lambda m, y: F.silu(y), lambda p, n: setattr(F, "silu", [F.gelu, F.softplus][n % 2])),
}


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """Globals that cases change."""
    guard_cases.FACTOR = 1.0
    monkeypatch.setattr(F, "silu", F.silu)
    monkeypatch.setattr(nn.Dropout, "forward", nn.Dropout.forward)
    monkeypatch.setattr(Scaled, "factor", 2.0)
    monkeypatch.setenv("EBBTIDE_TEST_FACTOR", "1")
    before = WEIGHT, dict(SETTINGS, inner=list(SETTINGS["inner"])), CONFIG.weight
    yield
    globals().update(WEIGHT=before[0])
    SETTINGS.update(before[1])
    CONFIG.weight = before[2]


@pytest.mark.filterwarnings("ignore:the step is captured anew")
@pytest.mark.parametrize("name", READS)
def test_what_forward_reads(name):
    how, between = READS[name]
    refusal = compare(lambda: Program(Scaled(how) if how else Scaled(lambda m, y: y), squared), between, recheck=1)
    assert refusal is None, refusal
