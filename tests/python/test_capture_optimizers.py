"""Every described update against torch's own optimizer, bit by bit, over five steps with a changing learning rate."""

import json

import pytest

torch = pytest.importorskip("torch")

from support.replay import assert_trains_alike  # noqa: E402
from torch import nn  # noqa: E402

import ebbtide  # noqa: E402
from ebbtide import CaptureError, native  # noqa: E402
from ebbtide.capture.optimizers import describe  # noqa: E402

SETTINGS = [
    (torch.optim.SGD, {}),
    (torch.optim.SGD, {"momentum": 0.9}),
    (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (torch.optim.SGD, {"weight_decay": 0.1, "maximize": True}),
    (torch.optim.Adam, {}),
    (torch.optim.Adam, {"weight_decay": 0.1}),
    (torch.optim.Adam, {"weight_decay": 0.1, "amsgrad": True, "maximize": True}),
    (torch.optim.AdamW, {}),
    (torch.optim.AdamW, {"amsgrad": True, "betas": (0.8, 0.9)}),
    (torch.optim.RMSprop, {}),
    (torch.optim.RMSprop, {"centered": True, "weight_decay": 0.1}),
    (torch.optim.RMSprop, {"centered": True, "momentum": 0.9, "maximize": True}),
    (torch.optim.Adagrad, {}),
    (torch.optim.Adagrad, {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    (torch.optim.Adagrad, {"maximize": True}),
    (torch.optim.Adafactor, {}),
    (torch.optim.Adafactor, {"weight_decay": 0.1, "d": 1.5, "eps": (1e-5, 1e-2), "maximize": True}),
]


def name_of(setting):
    optimizer, options = setting
    return "-".join([optimizer.__name__, *options])


def small_model():
    """Parameters of one, two and four dimensions; one that gets no gradient."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 4 * 4, 5))
    model.register_parameter("unused", nn.Parameter(torch.ones(3)))
    return model, (torch.randn(4, 2, 6, 6), torch.randint(0, 5, (4,)))


def halve_learning_rate(optimizer, step):
    for group in optimizer.param_groups:
        group["lr"] *= 0.5 if step else 1.0


# torch runs Adafactor one parameter at a time on every device, unless told otherwise.
PATHS = [(s, None) for s in SETTINGS] + [(s, True) for s in SETTINGS if s[0] is not torch.optim.Adafactor]


@pytest.mark.parametrize(("setting", "foreach"), PATHS, ids=[name_of(s) + ("-foreach" if f else "") for s, f in PATHS])
def test_update_is_torchs_own(setting, foreach):
    optimizer, options = setting
    model, batch = small_model()

    def make(parameters):
        return optimizer(parameters, lr=0.05, foreach=foreach, **options)

    captured = assert_trains_alike(
        ebbtide.capture, model, nn.functional.cross_entropy, make, batch, steps=5, before_step=halve_learning_rate
    )
    update = [op for op in captured.graph["ops"] if op["phase"] == "update"]
    assert any(op["kind"].startswith("_foreach_") for op in update) == bool(foreach)


def test_groups_have_scalars_of_their_own():
    model, batch = small_model()

    def make(_parameters, of=model):
        parameters = list(of.parameters())
        return torch.optim.AdamW([
            {"params": parameters[:3], "lr": 0.1},
            {"params": parameters[3:], "lr": 0.01, "weight_decay": 0.0},
        ])

    captured = ebbtide.capture(model, nn.functional.cross_entropy, make(None), batch)
    values = {s["name"]: s["value"] for s in captured.graph["scalars"]}
    assert values["group0.lr"] == 0.1 and values["group1.lr"] == 0.01
    # AdamW keeps 1 - lr * weight_decay of a parameter; without weight decay there is no such op.
    assert values["group0.kept"] == 1 - 0.1 * 0.01
    kept = [s["name"] for s in captured.graph["scalars"]].index("group1.kept")
    assert not any({"scalar": kept} in op["arguments"].values() for op in captured.graph["ops"])


def test_learning_rate_is_no_constant():
    for optimizer, options in SETTINGS:
        model, batch = small_model()
        captured = ebbtide.capture(model, nn.functional.cross_entropy, optimizer(model.parameters(), lr=0.0625, **options), batch)
        for op in captured.graph["ops"]:
            assert not any(v in (0.0625, -0.0625) for v in op["arguments"].values() if isinstance(v, float)), op


def test_state_in_use_is_taken_over():
    model, batch = small_model()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
        optimizer.step()
    captured = ebbtide.capture(model, nn.functional.cross_entropy, optimizer, batch)
    values = dict(zip((s["name"] for s in captured.graph["scalars"]), captured.update.scalar_values()))
    assert values["group0.square_correction"] == (1 - 0.999**4.0) ** 0.5  # three steps taken, this is the fourth
    states = [s for s in captured.sources.values() if s.kind == "optimizer_state"]
    assert states and all(s.tensor is not None for s in states)


def test_change_of_structure_is_noticed():
    model, batch = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    captured = ebbtide.capture(model, nn.functional.cross_entropy, optimizer, batch)
    optimizer.param_groups[0]["lr"] = 0.2
    assert captured.update.still_fits()
    optimizer.param_groups[0]["weight_decay"] = 0.1
    assert not captured.update.still_fits()


@pytest.mark.parametrize(("make", "expected"), [
    (torch.optim.LBFGS, "LBFGS cannot be captured; supported: SGD, Adam, AdamW, RMSprop, Adagrad, Adafactor"),
    (lambda p: torch.optim.Adam(p, fused=True), "fused=True in group 0"),
    (lambda p: torch.optim.Adafactor(p, foreach=True), "foreach=True in group 0"),
    (lambda p: torch.optim.SGD(p, lr=torch.tensor(0.1)), "lr in group 0 is a Tensor; expected a number"),
    (lambda p: "adam", "optimizer is of type str; expected"),
])
def test_refusals_name_what_is_supported(make, expected):
    with pytest.raises(CaptureError) as refusal:
        describe(make(nn.Linear(2, 2).parameters()))
    assert expected in str(refusal.value) and "\n" not in str(refusal.value)


class Lamb(torch.optim.Optimizer):
    """As people write it: state made in the first step, a ratio of norms read to the host."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, mean=torch.zeros_like(p.data), square=torch.zeros_like(p.data))
                state["step"] += 1
                state["mean"].mul_(0.9).add_(p.grad, alpha=0.1)
                state["square"].mul_(0.99).addcmul_(p.grad, p.grad, value=0.01)
                update = state["mean"] / state["square"].sqrt().add(1e-6)
                ratio = (p.data.norm() / update.norm()).item()
                p.data.add_(update, alpha=-group["lr"] * ratio)


@pytest.mark.parametrize(("make", "states"), [
    (torch.optim.Adadelta, 2), (torch.optim.Adamax, 2), (torch.optim.NAdam, 2), (torch.optim.RAdam, 2), (torch.optim.Rprop, 2),
    (lambda p: torch.optim.Adam(p, fused=True), 2), (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True), 1), (Lamb, 2),
])
def test_other_optimizers_are_traced_for_their_memory(make, states):
    model, batch = small_model()
    captured = ebbtide.capture(model, nn.functional.cross_entropy, make(model.parameters()), batch)
    held = sum(s["bytes"] for s in captured.graph["storages"] if s["kind"] == "optimizer_state" and s["bytes"] > 8)
    trained = 4 * sum(p.numel() for n, p in model.named_parameters() if n != "unused")
    assert held == states * trained
    changed = {n for op in captured.graph["ops"] if op["phase"] == "update" for n in op.get("mutated", ())}
    storages = {captured.graph["tensors"][n]["storage"] for n in changed}
    assert sum(captured.graph["storages"][s]["kind"] == "parameter" for s in storages) == 6  # all but `unused`
    # A step that really trains leaves what no description is there for to PyTorch, and says so.
    with pytest.warns(UserWarning, match="runs behind each step"):
        step = ebbtide.step(model, nn.functional.cross_entropy, make(model.parameters()), batch, budget="1GiB", measure=False)
    step.close()


class Renewing(torch.optim.Optimizer):
    """Its state is a new tensor after each step; one of them, a number that depends on values, no step reads."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            if p.grad is not None:
                state = self.state[p]
                state["mean"] = 0.9 * state.get("mean", 0) + p.grad
                state["norm"] = p.norm()
                p.add_(state["mean"], alpha=-0.1)


def test_state_that_each_step_makes_anew_is_counted_once():
    model, batch = small_model()
    captured = ebbtide.capture(model, nn.functional.cross_entropy, Renewing(model.parameters()), batch)
    native.Graph(json.dumps(captured.graph), "step")  # passes the checks of every graph
    held = sum(s["bytes"] for s in captured.graph["storages"] if s["kind"] == "optimizer_state")
    assert held == sum(4 * p.numel() for n, p in model.named_parameters() if n != "unused")  # single numbers on the host are constants


def test_what_a_traced_optimizer_reads_is_assumed_and_said():
    model, batch = small_model()
    captured = ebbtide.capture(model, nn.functional.cross_entropy, Lamb(model.parameters()), batch)
    assert "test_capture_optimizers.py:" in captured.graph["meta"]["assumed"]
    assert "a number that depends on values was taken for 1" in captured.graph["meta"]["assumed"]


def test_an_optimizer_that_calls_the_model_is_refused():
    model, batch = small_model()
    with pytest.raises(CaptureError, match="LBFGS calls the model itself.*ebbtide dryrun"):
        ebbtide.capture(model, nn.functional.cross_entropy, torch.optim.LBFGS(model.parameters()), batch)


class Curved(torch.optim.Optimizer):
    """Of second order: it differentiates gradients."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            if p.grad is not None:
                torch.autograd.grad(p.grad.sum(), p)


def test_an_optimizer_of_second_order_is_refused_in_words_of_the_model():
    model, batch = small_model()
    with pytest.raises(CaptureError, match="Curved takes gradients of gradients.*ebbtide dryrun"):
        ebbtide.capture(model, nn.functional.cross_entropy, Curved(model.parameters()), batch)


def test_parameters_that_took_fewer_steps_have_numbers_of_their_own():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    optimizer.state[model.weight]["step"] += 1
    captured = ebbtide.capture(model, lambda y: y.sum(), optimizer, torch.ones(1, 2))
    values = dict(zip([s["name"] for s in captured.graph["scalars"]], captured.update.scalar_values()))
    assert values["group0.minus_step_size"] == -(0.5 / (1 - 0.9**3.0))  # the weight's third step
    assert values["group0.cohort1.minus_step_size"] == -(0.5 / (1 - 0.9**2.0))  # the bias's second


def test_parameters_without_gradient_keep_their_state_and_count():
    model, batch = small_model()
    optimizer = torch.optim.Adagrad(model.parameters())
    nn.functional.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()  # all but `unused`, whose state is there from the start
    captured = ebbtide.capture(model, nn.functional.cross_entropy, optimizer, batch)
    assert "sum.unused" in [s.get("name") for s in captured.graph["storages"]]
