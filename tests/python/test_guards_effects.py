"""ebbtide.step and what Python code does beside computing: a captured step runs none of it, so it is refused with its line, and what the
capture itself has done is undone."""

import ctypes
import functools
import random
import time

import numpy
import pytest

torch = pytest.importorskip("torch")

from support.guard_cases import Net, Program, compare, line_in, squared  # noqa: E402
from support.replay import same_bits  # noqa: E402
from torch import nn  # noqa: E402

import ebbtide  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")

SEEN = []
COUNT = 0
GENERATOR = numpy.random.default_rng(1)


class Doubling(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, x):
        Doubling.calls += 1
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Effect(Net):
    def __init__(self, what):
        super().__init__()
        self.what, self.n, self.hidden, self.kept, self.told = what, 0, torch.zeros(4), [], {}

    def forward(self, x):
        return self.what(self, super().forward(x))


def counts(model, y):
    model.n += 1
    return y


def counts_and_scales(model, y):
    model.n += 1
    return y * model.n


def keeps_a_state(model, y):
    y = y + model.hidden
    model.hidden = y.detach().mean(0)
    return y


def appends(model, y):
    model.kept.append(y.detach())
    return y


def tells(model, y):
    model.told["shape"] = len(model.told) + model.n
    model.told[len(model.told)] = 1
    return y


def keeps_the_graph(model, y):
    model.hidden = y
    return y


def a_global_counter(model, y):
    global COUNT
    COUNT += 1
    return y


def a_global_list(model, y):
    SEEN.append(y.shape)
    return y


def draws(model, y):
    return y * random.random()


def draws_and_forgets(model, y):
    random.shuffle([1, 2, 3])
    return y


def draws_from_numpy(model, y):
    return y * float(numpy.random.rand())


def draws_from_a_generator(model, y):
    return y * float(GENERATOR.random())


def seeds(model, y):
    torch.manual_seed(5)
    return y + torch.randn(4)


def forks(model, y):
    with torch.random.fork_rng():
        return y + torch.randn(4)


def reads_a_clock(model, y):
    return y * (1 + time.time() % 1)


def reads_a_file(model, y):
    with open(__file__) as file:
        return y * len(file.readline())


def counts_in_autograd(model, y):
    return Doubling.apply(y)


def sets_by_name(model, y):
    setattr(model, "n" + "", model.n + 1)
    return y


# what the forward pass does, and the text of the line that the refusal names
REFUSED = {
    keeps_the_graph: "model.hidden = y", draws: "random.random()", draws_and_forgets: "random.shuffle", draws_from_numpy: "numpy.random.rand",
    draws_from_a_generator: "GENERATOR.random", seeds: "torch.manual_seed", forks: "fork_rng", reads_a_clock: "time.time()",
    reads_a_file: "open(__file__)",
}
# What is written is written by each step.
WRITTEN = [counts, counts_and_scales, keeps_a_state, appends, tells, a_global_counter, a_global_list, sets_by_name]


@pytest.mark.filterwarnings("ignore:the step is captured anew")
@pytest.mark.parametrize("what", WRITTEN, ids=lambda what: what.__name__)
def test_effects_are_those_of_plain_pytorch(what):
    global COUNT
    sides = []

    def make():
        sides.append(Program(Effect(what), squared))
        return sides[-1]

    COUNT = 0
    SEEN.clear()
    assert compare(make, steps=6, recheck=1) is None
    plain, mine = (program.model for program in sides)
    assert plain.n == mine.n and same_bits(plain.hidden, mine.hidden) and list(plain.told.items()) == list(mine.told.items())
    assert len(plain.kept) == len(mine.kept) and all(map(same_bits, plain.kept, mine.kept))
    assert COUNT in (0, 12) and SEEN in ([], [(5, 4)] * 12)


@pytest.mark.parametrize("what", REFUSED, ids=lambda what: what.__name__)
def test_effects_are_refused_with_their_line_and_undone(what):
    model = Effect(what)
    before = model.n, model.hidden, list(model.kept), dict(model.told), COUNT, list(SEEN), random.getstate(), repr(numpy.random.get_state())
    numbers = repr(GENERATOR.bit_generator.state)
    with pytest.raises(ebbtide.CaptureError) as refusal:
        ebbtide.step(model, squared, torch.optim.SGD(model.parameters(), lr=0.1), Program(model, squared).batch(0), policy="none", measure=False)
    assert line_in(what, REFUSED[what]) in str(refusal.value), str(refusal.value)
    assert "\n" not in str(refusal.value)
    after = model.n, model.hidden, model.kept, model.told, COUNT, SEEN, random.getstate(), repr(numpy.random.get_state())
    assert all(a is b or a == b for a, b in zip(before, after)) and repr(GENERATOR.bit_generator.state) == numbers


@pytest.mark.filterwarnings("ignore:the step is captured anew")
def test_a_counter_of_an_autograd_function():
    Doubling.calls = 0
    assert compare(lambda: Program(Effect(counts_in_autograd), squared)) is None
    assert Doubling.calls == 8


@pytest.mark.filterwarnings("ignore:the step is captured anew")
@pytest.mark.parametrize("register", ["register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook"])
def test_hooks_that_count(register):
    counts = {"n": 0}

    def hook(*_):
        counts["n"] += 1

    def make():
        program = Program(Net(), squared)
        getattr(program.model.first, register)(hook)
        return program

    assert compare(make) is None
    assert counts == {"n": 8}


def test_what_is_printed_at_the_capture_alone_is_told():
    model = Effect(lambda m, y: print("a", "shape") or y)
    with pytest.warns(UserWarning, match=r"test_guards_effects.py:\d+: prints when the step is captured, and not at each step"):
        ebbtide.step(model, squared, torch.optim.SGD(model.parameters(), lr=0.1), Program(model, squared).batch(0), policy="none", measure=False)


def test_an_iterator_and_a_scripted_module_cannot_be_watched():
    for value, expected in ((iter([1.0, 2.0]), "is a list_iterator, whose position"), (torch.jit.script(nn.Linear(4, 4)), "is a scripted module")):
        model = Effect(lambda m, y: m.held(y) if callable(m.held) else y * next(m.held))
        model.held = value
        with pytest.raises(ebbtide.CaptureError, match=f"model.*held.* {expected}"):
            ebbtide.step(model, squared, torch.optim.SGD(model.parameters(), lr=0.1), Program(model, squared).batch(0), policy="none", measure=False)


def test_a_capture_leaves_no_fakes():
    """ebbtide.capture refuses nothing of it: a graph is not run again."""
    model = Effect(keeps_a_state)
    hidden = model.hidden
    ebbtide.capture(model, squared, None, Program(model, squared).batch(0))
    assert model.hidden is hidden
    model = Effect(appends)
    ebbtide.capture(model, squared, None, Program(model, squared).batch(0))
    assert model.kept == []


def test_a_recurrent_layer_has_its_own_weights_afterwards():
    model = nn.LSTM(6, 4, batch_first=True)
    ebbtide.capture(model, lambda out: out[0].sum(), None, torch.randn(2, 3, 6))
    assert all(a is b for a, b in zip(model._flat_weights, model.parameters()))


class Summing(Net):
    """A tensor that the code makes anew each time, and changes."""

    def forward(self, x):
        total = torch.tensor([0.0, 0.0, 0.0, 0.0])
        total += super().forward(x).sum(0)
        total += 1
        return total.expand(x.shape[0], 4)


def test_tensors_made_of_numbers_begin_anew():
    assert compare(lambda: Program(Summing(), squared), recheck=2) is None


def test_a_closure_that_no_attribute_leads_to():
    def make():
        weight = [1.0]

        def loss(out, target):
            return squared(out, target) * weight[0]

        program = Program(Net(), loss)
        program.weight = weight
        return program

    assert compare(make, lambda p, n: p.weight.__setitem__(0, 1.0 + n)) is None


def test_a_cell_that_is_bound_anew():
    def make():
        weight = 1.0

        def loss(out, target):
            return squared(out, target) * weight

        def change(to):
            nonlocal weight
            weight = to

        program = Program(Net(), loss)
        program.change = change
        return program

    assert compare(make, lambda p, n: p.change(1.0 + n)) is None


def test_numbers_that_on_gradients_reads():
    def make():
        program = Program(Net(), squared)
        program.most = {"value": 0.1}
        program.on_gradients = lambda parameters: [p.grad.clamp_(-program.most["value"], program.most["value"]) for p in parameters]
        return program

    assert compare(make, lambda p, n: p.most.update(value=0.1 / n)) is None


def test_modules_and_hooks_that_come_later():
    def between(program, number):
        torch.manual_seed(number)
        if number == 1:
            program.model.drop = nn.Sequential(nn.Dropout(0.1), nn.Tanh())
        elif number == 2:
            program.handle = program.model.first.register_forward_hook(lambda module, inputs, out: out * 2)
        elif number == 3:
            program.handle.remove()
            program.model.last.weight.register_hook(lambda gradient: gradient * 3)

    assert compare(lambda: Program(Net(), squared), between) is None


def test_a_hook_of_all_modules():
    handles = []

    def between(program, number):
        if number == 2 and not handles:
            handles.append(nn.modules.module.register_module_forward_hook(lambda module, inputs, out: out * 0.5))

    try:
        assert compare(lambda: Program(Net(), squared), between) is None
    finally:
        handles[0].remove()


def test_plans_come_back_and_a_change_that_makes_no_difference_keeps_them():
    model = Net()
    model.note = "a"
    original = Net.forward

    def forward(self, x):
        return original(self, x) if self.note else None

    model.forward = forward.__get__(model)
    program = Program(model, squared)
    step = ebbtide.step(model, squared, program.optimizer, program.batch(0), policy="none", measure=False)
    first = next(iter(step._plans.values()))
    step(*program.batch(0))
    model.note = "b"  # read, and of no consequence
    step(*program.batch(0))
    assert list(step._plans.values()) == [first] and first.steps == 2
    model.scale = 3.0
    step(*program.batch(0))
    second = next(iter(step._plans.values()))
    assert second is not first
    model.scale = 1.5
    step(*program.batch(0))
    assert next(iter(step._plans.values())) is first
    with pytest.warns(UserWarning, match="captured anew for the 3rd time.*model.scale: 1.5, then"):
        for number in range(12):
            model.scale = 10.0 + number
            step(*program.batch(0))
    assert len(step._plans) + len(step._aside) <= 8


class Caching(Net):
    """Keeps a table that it makes when it needs it, the shape that it saw last, and whether it has been called."""

    def __init__(self):
        super().__init__()
        self.tables, self.mask, self.last_shape, self.first_time = {}, None, None, True

    def forward(self, x):
        if len(x) not in self.tables:
            self.tables[len(x)] = torch.arange(len(x)).float().sin().unsqueeze(1)
        if self.mask is None:
            self.mask = torch.tril(torch.ones(4, 4))
        out = super().forward(x) + self.tables[len(x)]
        out = out @ self.mask
        self.last_shape = x.shape
        if self.first_time:
            self.first_time = False
            out = out * 2
        return out


def test_what_a_model_keeps_for_later():
    sides = []

    def make():
        sides.append(Program(Caching(), squared))
        return sides[-1]

    assert compare(make, steps=4, recheck=1) is None
    plain, mine = (program.model for program in sides)
    assert plain.tables.keys() == mine.tables.keys() and all(torch.equal(plain.tables[n], mine.tables[n]) for n in plain.tables)
    assert torch.equal(plain.mask, mine.mask) and plain.last_shape == mine.last_shape and plain.first_time is mine.first_time is False


SCALE = ctypes.c_double(1.0)  # what it holds, no guard can see


def test_recheck_finds_what_no_guard_sees():
    model = Effect(lambda m, y: y * SCALE.value)
    program = Program(model, squared)
    step = ebbtide.step(model, squared, program.optimizer, program.batch(0), policy="none", measure=False, recheck=2)
    step(*program.batch(0))
    SCALE.value = 3.0
    with pytest.raises(ebbtide.CaptureError, match="nothing that is watched has changed: mul in layer .*1.0.*3.0"):
        step(*program.batch(0))


@pytest.mark.parametrize("recheck", [-1, True, "often"])
def test_recheck_is_a_number_of_steps(recheck):
    with pytest.raises(ValueError, match="recheck .*expected a number of steps"):
        program = Program(Net(), squared)
        ebbtide.step(program.model, squared, program.optimizer, program.batch(0), recheck=recheck)


@functools.lru_cache
def table(size):
    return torch.arange(size).float()


def test_a_capture_leaves_no_fakes_in_caches():
    def make():
        return Program(Effect(lambda m, y: y + table(4)), squared)

    assert compare(make, recheck=0) is None  # plain PyTorch fills the cache meanwhile
    assert type(table(4)) is torch.Tensor and table(4).sum() == 6
    model = make().model
    ebbtide.capture(model, squared, None, Program(model, squared).batch(0))
    assert type(table(4)) is torch.Tensor and table(4).sum() == 6
