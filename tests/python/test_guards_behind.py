"""What comes behind the ops of ebbtide.step: optimizers that PyTorch runs itself, gradients of inputs, hooks that see stored gradients, and
what Python code keeps for the next step."""

import copy

import pytest

torch = pytest.importorskip("torch")

from support.guard_cases import Net, Program, compare, squared  # noqa: E402
from support.replay import same_bits  # noqa: E402
from torch import nn, optim  # noqa: E402

import ebbtide  # noqa: E402

pytestmark = [pytest.mark.usefixtures("one_thread", "own_cache"), pytest.mark.filterwarnings("ignore:.*PyTorch's own optimizer.step")]

OTHERS = {
    "adadelta": optim.Adadelta, "adamax": optim.Adamax, "nadam": optim.NAdam, "radam": optim.RAdam, "asgd": optim.ASGD, "rprop": optim.Rprop,
    "fused": lambda p: optim.Adam(p, fused=True), "lr a tensor": lambda p: optim.SGD(p, lr=torch.tensor(0.1), momentum=0.9),
}


@pytest.mark.parametrize("name", OTHERS)
def test_optimizers_that_no_description_has(name):
    assert compare(lambda: Program(Net(), squared, OTHERS[name]), recheck=2) is None


def test_it_is_told_once_with_what_it_takes():
    program = Program(Net(), squared, optim.Rprop)
    with pytest.warns(UserWarning, match=r"Rprop cannot be captured.*runs behind each step, and is not within the budget.*\(.* B\)") as told:
        step = ebbtide.step(program.model, squared, program.optimizer, program.batch(0), policy="none", measure=False)
    step(*program.batch(0))
    assert len(told) == 1


def test_one_that_calls_the_model_itself_is_refused():
    program = Program(Net(), squared, optim.LBFGS)
    with pytest.raises(ebbtide.CaptureError, match="LBFGS cannot be captured"):
        ebbtide.step(program.model, squared, program.optimizer, program.batch(0), policy="none", measure=False)


def test_gradients_that_are_clipped_and_added_up_first():
    torch.manual_seed(0)
    models = [Net(), Net()]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [optim.NAdam(model.parameters()) for model in models]
    batches = [Program(models[0], squared).batch(number) for number in range(6)]
    step = ebbtide.step(models[1], squared, optimizers[1], batches[0], accumulate=2, clip_grad_norm=0.1, policy="none", measure=False)
    state = torch.get_rng_state()
    for number, batch in enumerate(batches):
        squared(models[0](batch[0]), batch[1]).backward()
        if number % 2:
            nn.utils.clip_grad_norm_(models[0].parameters(), 0.1)
            optimizers[0].step()
            optimizers[0].zero_grad()
    torch.set_rng_state(state)
    for batch in batches:
        step(*batch)
    assert all(map(same_bits, models[0].state_dict().values(), models[1].state_dict().values()))


def test_what_lies_in_grad_stays_there():
    program = Program(Net(), squared, optim.Rprop)
    weight = program.model.first.weight
    weight.grad = left = torch.full_like(weight, 7.0)
    step = ebbtide.step(program.model, squared, program.optimizer, program.batch(0), policy="none", measure=False)
    step(*program.batch(0))
    assert weight.grad is left and left.eq(7).all() and program.model.last.weight.grad is None


def test_within_a_budget():
    torch.manual_seed(0)
    models = [nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(6))) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [optim.Adadelta(model.parameters()) for model in models]
    batch = torch.randn(256, 64), torch.randn(256, 64)
    step = ebbtide.step(models[1], squared, optimizers[1], batch, budget="70%")
    for _ in range(3):
        optimizers[0].zero_grad()
        squared(models[0](batch[0]), batch[1]).backward()
        optimizers[0].step()
        step(*batch)
    assert all(map(same_bits, models[0].state_dict().values(), models[1].state_dict().values()))


# -- inputs that require gradients -------------------------------------------------------------------------------------------


def both_ways(make_input, steps=3, model=Net, **options):
    """Trains a model on inputs that `make_input` makes of a side's own model `before`, and compares all gradients that it gets."""
    torch.manual_seed(0)
    before, main = nn.Linear(6, 6), model()
    sides = [(copy.deepcopy(before), copy.deepcopy(main)) for _ in range(2)]
    got, state = [], torch.get_rng_state()
    for number, (first, second) in enumerate(sides):
        torch.set_rng_state(state)
        optimizer, target, step = optim.Adam(second.parameters(), lr=0.01), torch.ones(5, 4), None
        mine = []
        for k in range(steps):
            x = make_input(first, k)
            if number == 0:
                optimizer.zero_grad()
                squared(second(x), target).backward()
                optimizer.step()
            else:
                step = step or ebbtide.step(second, squared, optimizer, (x, target), policy="none", measure=False, **options)
                step(x, target)
            mine += [x.grad.clone() if x.is_leaf else torch.zeros(())]
        got.append([*mine, *(p.grad for p in first.parameters() if p.grad is not None), *second.state_dict().values()])
    assert len(got[0]) == len(got[1]) and all(map(same_bits, *got))


def test_inputs_that_require_gradients():
    both_ways(lambda first, k: torch.full((5, 6), float(k)).requires_grad_())


def test_inputs_that_another_model_made():
    both_ways(lambda first, k: torch.tanh(first(torch.full((5, 6), float(k)))))


def test_inputs_that_the_model_itself_made_are_refused():
    program = Program(Net(), squared)
    x, target = torch.ones(5, 6) * program.model.scale * program.model.first.weight.sum(), torch.ones(5, 4)
    step = ebbtide.step(program.model, squared, program.optimizer, (x, target), policy="none", measure=False)
    with pytest.raises(ebbtide.CaptureError, match="was made by the model itself"):
        step(x, target)


def test_negative_views():
    def batches(number):
        z = torch.complex(torch.zeros(5, 6), torch.randn(5, 6, generator=torch.Generator().manual_seed(number)))
        return z.conj().imag, torch.ones(5, 4)

    assert batches(0)[0].is_neg()
    assert compare(lambda: Program(Net(), squared), batches=batches) is None


# -- hooks that see stored gradients -------------------------------------------------------------------------------------------


def test_hooks_after_accumulation():
    def between(program, number):
        if number == 1:
            program.model.first.weight.register_post_accumulate_grad_hook(shrink)
        elif number == 2:
            program.model.last.bias.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None))

    def shrink(parameter):
        parameter.grad.mul_(0.1)

    assert compare(lambda: Program(Net(), squared), between, recheck=1) is None


def test_an_optimizer_in_backward():
    """Each parameter is updated as soon as its gradient is there, and the optimizer has nothing left to do."""
    def make():
        program = Program(Net(), squared, lambda p: optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1))
        each = {p: optim.Adam([p], lr=0.01) for p in program.model.parameters()}

        def update(parameter):
            each[parameter].step()
            each[parameter].zero_grad()

        for parameter in each:
            parameter.register_post_accumulate_grad_hook(update)
        return program

    assert compare(make) is None


# -- what code keeps -----------------------------------------------------------------------------------------------------------


class Keeping(Net):
    def __init__(self, keep):
        super().__init__()
        self.keep, self.hidden, self.last_input, self.view, self.seen, self.order = keep, torch.zeros(4), None, None, {}, {"a": 1.0, "b": 2.0}
        self.calls = 0

    def forward(self, x):
        return self.keep(self, super().forward(x), x)


def keeps_a_hidden_state(m, y, x):
    y = torch.tanh(y + m.hidden)
    m.hidden = y.detach().mean(0)
    return y


def keeps_parts(m, y, x):
    m.view = y.detach()
    m.hidden = m.view[0]
    return y if m.last_input is None else y + m.last_input.sum()


def keeps_its_input(m, y, x):
    y = y if m.last_input is None else y + m.last_input.mean()
    m.last_input = x
    return y


def keeps_containers(m, y, x):
    m.seen = {"mean": y.detach().mean(), "parts": [y.detach().sum(0), (1, 2)]}
    return y


def moves_on(m, y, x):
    m.last_input, m.hidden = m.hidden, y.detach().sum(0)
    return y + m.last_input


def reorders(m, y, x):
    first = next(iter(m.order))
    m.order[first] = m.order.pop(first)
    return y * m.order[first] if first == "a" else y


def only_counts(m, y, x):
    m.calls += 1
    return y


@pytest.mark.filterwarnings("ignore:the step is captured anew")
@pytest.mark.parametrize("keep", [keeps_a_hidden_state, keeps_parts, keeps_its_input, keeps_containers, moves_on, reorders, only_counts],
                         ids=lambda keep: keep.__name__)
def test_what_code_keeps(keep):
    sides = []

    def make():
        sides.append(Program(Keeping(keep), squared))
        return sides[-1]

    assert compare(make, steps=6, recheck=1) is None
    plain, mine = (program.model for program in sides)
    assert plain.calls == mine.calls and list(plain.order) == list(mine.order)
    for name in ("hidden", "last_input", "view"):
        a, b = getattr(plain, name), getattr(mine, name)
        assert a is b is None or same_bits(a, b), name
    if keep is keeps_parts:
        mine.view.fill_(3.0)
        assert mine.hidden.eq(3).all()  # one memory, as in plain PyTorch
    if keep is keeps_containers:
        assert same_bits(plain.seen["mean"], mine.seen["mean"]) and same_bits(plain.seen["parts"][0], mine.seen["parts"][0])


@pytest.mark.parametrize("keep", [keeps_a_hidden_state, only_counts], ids=lambda keep: keep.__name__)
def test_what_nothing_else_depends_on_is_captured_once(keep, monkeypatch):
    captures = []
    from ebbtide.step import step as module

    own = module.Step._captured_once
    monkeypatch.setattr(module.Step, "_captured_once", lambda self, batch: captures.append(1) or own(self, batch))
    program = Program(Keeping(keep), squared)
    step = ebbtide.step(program.model, squared, program.optimizer, program.batch(0), policy="none", measure=False)
    for number in range(5):
        step(*program.batch(number))
    assert len(captures) == 1


def test_a_state_that_somebody_holds_and_one_that_is_set_by_hand():
    held = {}

    def between(program, number):
        held.setdefault(id(program), []).append(program.model.hidden)
        if number == 2:
            program.model.hidden = torch.full((4,), 0.5)
        if number == 3:
            program.model.hidden.mul_(2)

    assert compare(lambda: Program(Keeping(keeps_a_hidden_state), squared), between, steps=6) is None
    plain, mine = held.values()
    assert len(plain) == 5 and all(map(same_bits, plain, mine))


def test_a_schedule_by_count_is_no_count_alone():
    class Scheduled(Net):
        def __init__(self):
            super().__init__()
            self.n, self.weights = 0, [1.0, 1.0, 1.0, 0.5, 0.25, 0.0]

        def forward(self, x):
            y = super().forward(x) * self.weights[self.n]
            self.n += 1
            return y

    with pytest.warns(UserWarning, match="captured anew for the 3rd time.*model.n"):
        assert compare(lambda: Program(Scheduled(), squared), steps=6) is None


def test_sizes_that_shapes_do_not_tell_without_measuring():
    for loss in (nn.MSELoss(), nn.SmoothL1Loss(), nn.SoftMarginLoss(), lambda out, target: nn.functional.binary_cross_entropy(out.sigmoid(), target.sigmoid())):
        assert compare(lambda loss=loss: Program(Net(), loss)) is None

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.last = nn.LSTM(6, 8, 2, batch_first=True), nn.Linear(8, 4)

        def forward(self, x):
            return self.last(self.layers(x.unsqueeze(1).expand(-1, 3, -1))[0][:, -1])

    assert compare(lambda: Program(Recurrent(), squared)) is None


def test_complex_numbers():
    class Complex(Net):
        def forward(self, x):
            z = torch.view_as_complex(super().forward(x).unflatten(1, (2, 2)).contiguous()) * (1 + 0.5j) + 1j
            return torch.view_as_real(z.conj() * (2 - 1j)).flatten(1)

    assert compare(lambda: Program(Complex(), squared), recheck=2) is None
