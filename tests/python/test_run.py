"""ebbtide.step trains to the last bit like plain PyTorch, within its budget, and leaves everything as it was when a step fails."""

import _thread
import copy
import json
import threading

import pytest

torch = pytest.importorskip("torch")

from support import run_models  # noqa: E402
from support.replay import loss_of, same_bits  # noqa: E402

import ebbtide  # noqa: E402
from ebbtide import BudgetError  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


class Pair:
    """A model with its optimizer and an exact copy of both, which plain PyTorch trains."""

    def __init__(self, name, make_optimizer):
        self.model, self.loss_fn, self.batch = run_models.ALL[name]()
        self.plain_model = copy.deepcopy(self.model)
        self.optimizer, self.plain_optimizer = make_optimizer(self.model.parameters()), make_optimizer(self.plain_model.parameters())

    def step(self, **options):
        """Before every fourth step it is captured again and compared: what guards miss shows here."""
        return ebbtide.step(self.model, self.loss_fn, self.optimizer, self.batch, **{"recheck": 4} | options)

    def step_or_minimum(self, budget, **options):
        try:
            return self.step(budget=budget, **options)
        except BudgetError as error:
            return self.step(budget=error.minimum_budget_bytes, **options)

    def plain(self, batch=None, gradients=None):
        """One step of plain PyTorch, on the copy."""
        self.plain_optimizer.zero_grad()
        loss = loss_of(self.plain_model, self.loss_fn, batch or self.batch)
        loss.backward()
        if gradients:
            gradients(self.plain_model.parameters())
        self.plain_optimizer.step()
        return loss.detach()

    def assert_same(self):
        for (name, a), b in zip(self.model.state_dict().items(), self.plain_model.state_dict().values()):
            assert same_bits(a, b), name
        a, b = self.optimizer.state_dict(), self.plain_optimizer.state_dict()
        assert a["param_groups"] == b["param_groups"]
        assert a["state"].keys() == b["state"].keys()
        for number, state in b["state"].items():
            assert a["state"][number].keys() == state.keys()
            for name, value in state.items():
                assert same_bits(a["state"][number][name], value), (number, name)


def assert_trains_alike(pair, step, steps):
    torch.manual_seed(7)
    expected = [pair.plain() for _ in range(steps)]
    random_state = torch.get_rng_state()
    torch.manual_seed(7)
    losses = []
    for _ in range(steps):
        losses.append(step(pair.batch) if isinstance(pair.batch, dict) else step(*pair.batch))
        report = step.report().to_dict()
        assert report["peak_bytes"] <= report["budget_bytes"]
    assert all(map(same_bits, losses, expected)), (losses, expected)
    assert torch.equal(torch.get_rng_state(), random_state)
    pair.assert_same()
    return report


@pytest.mark.parametrize(("policy", "budget"), [
    ("none", None), ("home", "70%"), ("home", "50%"), ("home", "35%"), ("vdnn-all", "100%"), ("checkpoint-sqrt", "110%"),
    ("capuchin", "90%"), ("superneurons", "100%"), ("dtr", "60%"),
])
def test_small_cnn_with_dropout(policy, budget):
    pair = Pair("cnn", torch.optim.Adam)
    step = pair.step(budget=budget, policy=policy) if policy != "home" else pair.step_or_minimum(budget)
    report = assert_trains_alike(pair, step, 5)
    assert report["policy"] == policy and report["steps"] == 5
    assert report["beyond_plan_bytes"] == 0 and report["relocated"] == 0  # the profile told the plan everything
    assert report["peak_bytes"] == report["predicted"]["peak_bytes"]
    if budget == "50%":
        assert report["peak_bytes"] <= report["plain_peak_bytes"] // 2
        assert report["copied_out_bytes"] + report["recompute_ns"] > 0


def test_the_report_as_files(tmp_path):
    pair = Pair("cnn", momentum)
    step = pair.step(budget="60%", link="2GB/s")
    for _ in range(2):
        step(*pair.batch)
    report = step.report()
    for name in ("r.json", "r.trace.json", "r.html", "r.txt"):
        report.save(tmp_path / name)
    assert json.loads((tmp_path / "r.json").read_text()) == report.to_dict()
    assert (tmp_path / "r.txt").read_text() == repr(report) and "copied to the host" in repr(report)
    assert "SmallCNN, measured" in (tmp_path / "r.html").read_text()
    events = [e for e in json.loads((tmp_path / "r.trace.json").read_text())["traceEvents"] if e["ph"] == "X"]
    tracks = [[e for e in events if e["tid"] == track] for track in range(3)]
    graph = next(iter(step._plans.values())).graph
    assert len(tracks[0]) >= len(graph["ops"])
    # Each way as many bytes as were copied, a copy at a time, each as long as the link makes it: 2 bytes per ns.
    for track, copied in zip(tracks[1:], (report.to_dict()["copied_out_bytes"], report.to_dict()["copied_in_bytes"])):
        assert copied <= sum(e["args"]["bytes"] for e in track) < copied + 512 * len(track)
        for before, after in zip(track, track[1:]):
            assert before["ts"] + before["dur"] <= after["ts"]
        for e in track:
            assert e["dur"] * 1e3 >= (e["args"]["bytes"] - 512) / 2
    with pytest.raises(ValueError, match="expected a name that ends in"):
        report.save(tmp_path / "r.pdf")


@pytest.mark.parametrize("name", ["unet", "lstm", "bert", "gpt2"])
def test_models(name):
    pair = Pair(name, momentum)
    assert_trains_alike(pair, pair.step_or_minimum("50%"), 3)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adamw": torch.optim.AdamW,
    "amsgrad": lambda p: torch.optim.Adam(p, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, momentum=0.5, centered=True),
    "adagrad": torch.optim.Adagrad,
    "adafactor": torch.optim.Adafactor,
    "foreach": lambda p: torch.optim.AdamW(p, foreach=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    pair = Pair("cnn", OPTIMIZERS[name])
    assert_trains_alike(pair, pair.step(budget="60%"), 3)


@pytest.mark.parametrize("name", ["cnn", "gpt2"])
def test_state_on_the_host(name):
    """Budgets that do not hold the state and the largest op at once."""
    pair = Pair(name, torch.optim.Adam)
    with pytest.raises(BudgetError) as caught:
        pair.step(budget="1KiB")
    with pytest.raises(BudgetError) as with_state:
        pair.step(budget="1KiB", swap_state=True)
    assert with_state.value.minimum_budget_bytes < caught.value.minimum_budget_bytes
    report = assert_trains_alike(pair, pair.step(budget=with_state.value.minimum_budget_bytes, swap_state=True), 4)
    assert report["peak_bytes"] < caught.value.minimum_budget_bytes


@pytest.mark.parametrize("name", ["cnn", "gpt2"])
def test_another_order(name):
    """Ops in another order, with copies and recomputations, give the same bits; random ops draw as before."""
    pair = Pair(name, torch.optim.Adam)
    assert_trains_alike(pair, pair.step(budget="70%", reorder=True), 3)


def test_without_a_profile():
    """Scratch memory that nobody has measured comes from what is free in the pool."""
    pair = Pair("cnn", momentum)
    report = assert_trains_alike(pair, pair.step(budget="110%", policy="checkpoint-sqrt", measure=False), 3)
    assert report["beyond_plan_bytes"] > 0


def test_schedule_clipping_and_resume(tmp_path):
    """Learning rates change, gradients are clipped, and model and optimizer are saved, thrown away and loaded midway."""
    pair = Pair("cnn", torch.optim.AdamW)

    def clip(parameters):
        torch.nn.utils.clip_grad_norm_(parameters, 0.05)

    step = pair.step(budget="60%", clip_grad_norm=0.05)
    schedules = [torch.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (pair.optimizer, pair.plain_optimizer)]
    torch.manual_seed(7)
    expected = []
    for _ in range(6):
        expected.append(pair.plain(gradients=clip))
        schedules[1].step()
    torch.manual_seed(7)
    losses = []
    for count in range(6):
        if count == 3:
            torch.save({"model": pair.model.state_dict(), "optimizer": pair.optimizer.state_dict()}, tmp_path / "saved.pt")
            for tensor in pair.model.state_dict().values():
                tensor.fill_(1)
            saved = torch.load(tmp_path / "saved.pt")
            pair.model.load_state_dict(saved["model"])
            pair.optimizer.load_state_dict(saved["optimizer"])
        losses.append(step(*pair.batch))
        schedules[0].step()
    assert all(map(same_bits, losses, expected))
    pair.assert_same()


def test_resume_in_a_new_step():
    pair = Pair("cnn", torch.optim.Adam)
    torch.manual_seed(7)
    expected = [pair.plain() for _ in range(4)]
    torch.manual_seed(7)
    step = pair.step(budget="60%")
    losses = [step(*pair.batch) for _ in range(2)]
    state = torch.get_rng_state()
    saved = copy.deepcopy(pair.model.state_dict()), copy.deepcopy(pair.optimizer.state_dict())
    pair.model = run_models.SmallCNN()
    pair.optimizer = torch.optim.Adam(pair.model.parameters())
    pair.model.load_state_dict(saved[0])
    pair.optimizer.load_state_dict(saved[1])
    step = pair.step(budget="50%")
    torch.set_rng_state(state)
    losses += [step(*pair.batch) for _ in range(2)]
    assert all(map(same_bits, losses, expected))
    pair.assert_same()


def test_gradients_of_several_batches():
    pair = Pair("cnn", torch.optim.Adam)
    loss_fn = pair.loss_fn
    pair.loss_fn = lambda out, target: loss_fn(out, target) / 3
    batches = [(torch.randn_like(pair.batch[0]), pair.batch[1].roll(i)) for i in range(6)]
    torch.manual_seed(7)
    expected = []
    for number, batch in enumerate(batches):
        loss = loss_of(pair.plain_model, pair.loss_fn, batch)
        loss.backward()
        expected.append(loss.detach())
        if number % 3 == 2:
            torch.nn.utils.clip_grad_norm_(pair.plain_model.parameters(), 0.1)
            pair.plain_optimizer.step()
            pair.plain_optimizer.zero_grad()
    step = pair.step_or_minimum("60%", accumulate=3, clip_grad_norm=0.1)
    torch.manual_seed(7)
    losses = [step(*batch) for batch in batches]
    assert all(map(same_bits, losses, expected))
    pair.assert_same()
    assert "accumulated" not in str(pair.optimizer.state_dict())


def test_a_function_of_the_gradients():
    pair = Pair("cnn", momentum)

    def shrink(parameters):
        for parameter in parameters:
            parameter.grad.mul_(0.5).clamp_(-0.01, 0.01)

    step = pair.step(budget="60%", on_gradients=shrink)
    torch.manual_seed(7)
    expected = [pair.plain(gradients=shrink) for _ in range(3)]
    torch.manual_seed(7)
    assert all(map(same_bits, [step(*pair.batch) for _ in range(3)], expected))
    pair.assert_same()


def test_other_shapes_and_modes_are_planned_anew():
    pair = Pair("cnn", momentum)
    step = pair.step(budget="80%")
    x, y = pair.batch
    batches = [(x, y), (x[:4], y[:4]), (x, y), (x.to(memory_format=torch.channels_last), y), (x[:4], y[:4])]
    torch.manual_seed(7)
    expected = [pair.plain(batch) for batch in batches]
    pair.plain_model.eval()
    expected.append(pair.plain(batches[0]))
    torch.manual_seed(7)
    losses = [step(*batch) for batch in batches]
    pair.model.eval()
    losses.append(step(*batches[0]))
    assert all(map(same_bits, losses, expected))
    pair.assert_same()
    assert len(step._plans) == 4


def test_a_part_of_a_large_tensor_counts_as_the_part():
    pair = Pair("cnn", momentum)
    data = torch.randn(1000, 3, 16, 16)
    pair.batch = data[:8], pair.batch[1]
    step = pair.step(budget=None, policy="none")
    step(*pair.batch)
    assert step.report().to_dict()["peak_bytes"] < data.nbytes


def test_state_is_the_users_between_steps():
    pair = Pair("cnn", momentum)
    step = pair.step(budget="60%")
    torch.manual_seed(7)
    pair.plain()
    with torch.no_grad():
        pair.plain_model.head.weight.mul_(2)
    pair.plain_model.head.bias.data = torch.ones_like(pair.plain_model.head.bias)
    pair.plain()
    torch.manual_seed(7)
    step(*pair.batch)
    with torch.no_grad():
        pair.model.head.weight.mul_(2)
    pair.model.head.bias.data = torch.ones_like(pair.model.head.bias)
    step(*pair.batch)
    pair.assert_same()
    step.close()
    pair.assert_same()


def test_two_steps_of_one_model():
    pair = Pair("cnn", momentum)
    first, second = pair.step(budget="60%"), pair.step(budget="80%", policy="checkpoint-sqrt")
    torch.manual_seed(7)
    expected = [pair.plain() for _ in range(4)]
    torch.manual_seed(7)
    losses = [step(*pair.batch) for step in (first, second, first, second)]
    assert all(map(same_bits, losses, expected))
    del first, second
    pair.assert_same()


# -- what does not fit, and what fails ---------------------------------------------------------------------------------


def test_a_budget_that_is_too_small_says_what_would_do():
    pair = Pair("cnn", momentum)
    with pytest.raises(BudgetError, match=r"budget 1\.00 KiB: home finds no plan for SmallCNN; the smallest budget that works is") as caught:
        pair.step(budget="1KiB")
    smallest = caught.value.minimum_budget_bytes
    step = pair.step(budget=smallest)
    step(*pair.batch)
    report = step.report().to_dict()
    assert report["budget_bytes"] == smallest
    with pytest.raises(BudgetError):
        pair.step(budget=report["peak_bytes"] - 4096)
    for budget in (0.5, True, "a lot"):
        with pytest.raises(ValueError, match="budget"):
            pair.step(budget=budget)


def everything(pair):
    """Copies of all that a step may change."""
    state = {name: tensor.clone() for name, tensor in pair.model.state_dict().items()}
    for number, values in pair.optimizer.state_dict()["state"].items():
        state |= {f"{number}.{name}": torch.as_tensor(value).clone() for name, value in values.items()}
    return state | {"random": torch.get_rng_state()}


def assert_unchanged(pair, before):
    after = everything(pair)
    assert after.keys() == before.keys()
    for name, value in before.items():
        assert same_bits(after[name], value), name


def test_every_request_and_every_copy_that_fails_leaves_everything_as_it_was():
    pair = Pair("cnn", torch.optim.Adam)
    step = pair.step_or_minimum("45%")
    prepared = next(iter(step._plans.values()))
    before, failures = everything(pair), 0
    for number in range(1, 10_000):
        prepared.engine.fail_at(number)
        try:
            step(*pair.batch)
        except torch.OutOfMemoryError as error:
            assert "the step has changed nothing" in str(error)
        else:
            break
        failures += 1
        assert_unchanged(pair, before)
    assert failures > 50
    failures = 0
    for number in range(1, 100):
        before = everything(pair)
        step._pool.fail_at(number)
        try:
            step(*pair.batch)  # a copy that fails is made again
        except RuntimeError:
            failures += 1
            assert_unchanged(pair, before)
    step._pool.fail_at(0)
    assert failures > 5
    step(*pair.batch)


def test_an_interrupt_leaves_everything_as_it_was(interrupts):
    pair = Pair("vgg16", momentum)
    step = pair.step(budget=None, policy="none", measure=False)
    pair.plain()
    before = everything(pair)
    timer = threading.Timer(0.05, _thread.interrupt_main)
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        for _ in range(100):
            before = everything(pair)
            step(*pair.batch)
    assert_unchanged(pair, before)
    step(*pair.batch)


def test_an_op_that_raises_leaves_everything_as_it_was():
    pair = Pair("cnn", momentum)
    step = pair.step(budget="60%")
    step(*pair.batch)
    before = everything(pair)
    with pytest.raises(RuntimeError, match="nll_loss"):
        step(pair.batch[0], torch.full_like(pair.batch[1], 10))  # there are ten classes
    assert_unchanged(pair, before)
    step(*pair.batch)


def test_wrong_batches():
    pair = Pair("cnn", momentum)
    step = pair.step(budget="60%")
    for batch in [(), (pair.batch[0],)]:
        with pytest.raises((TypeError, ValueError)):
            step(*batch)
    with pytest.raises(TypeError, match="as the example was"):
        step(x=pair.batch[0])
    with pytest.raises(RuntimeError, match="no step has been taken"):
        step.report()
