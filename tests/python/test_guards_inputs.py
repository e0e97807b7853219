"""ebbtide.step and its surroundings: batches of every kind, contexts around the call, parameters and optimizers that change."""

import contextlib

import numpy
import pytest

torch = pytest.importorskip("torch")

from support.guard_cases import Net, Program, compare, squared  # noqa: E402
from torch import nn  # noqa: E402

import ebbtide  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


def net():
    return Program(Net(), squared)


def with_optimizer(make):
    return lambda: Program(Net(), squared, make)


# -- parameters and modules in others' places --------------------------------------------------------------------------------


def assign(program, number):
    torch.manual_seed(number)
    state = program.model.state_dict()
    program.model.load_state_dict({name: torch.randn_like(t) if t.is_floating_point() else t.clone() for name, t in state.items()}, assign=True)


def new_parameter(program, number):
    torch.manual_seed(number)
    program.model.first.weight = nn.Parameter(torch.randn(8, 6))


def new_parameter_for_the_optimizer_too(program, number):
    new_parameter(program, number)
    program.optimizer.add_param_group({"params": [program.model.first.weight], "lr": 0.1})


def new_layer(program, number):
    torch.manual_seed(number)
    program.model.last = nn.Linear(8, 4)


def tied(program, number):
    if number == 1:
        program.model.norm.weight = program.model.norm.bias


def transposed(program, number):
    weight = program.model.first.weight
    weight.data = weight.data.t().contiguous().t()


def same_storage_other_strides(program, number):
    if number == 1:
        program.model.square = nn.Parameter(torch.eye(4))
    weight = program.model.norm.running_mean
    weight.data = weight.data.flip(0)


def new_buffer(program, number):
    program.model.norm.running_mean = torch.full((8,), float(number))


def one_buffer_for_two(program, number):
    if number == 2:
        program.model.norm.running_mean = program.model.norm.running_var


def half(program, number):
    if number == 2:
        program.model.double()
        program.batch_type = torch.float64


def freeze(program, number):
    program.model.first.requires_grad_(number % 2 == 0)


@pytest.mark.filterwarnings("ignore:the step is captured anew")
@pytest.mark.parametrize("between", [
    assign, new_parameter, new_parameter_for_the_optimizer_too, new_layer, tied, transposed, same_storage_other_strides, new_buffer, one_buffer_for_two, freeze,
], ids=lambda f: f.__name__)
def test_others_in_their_places(between):
    refusal = compare(net, between)
    assert refusal is None or between is one_buffer_for_two, refusal


# -- optimizers ------------------------------------------------------------------------------------------------------------


def unfreeze(program, number):
    if number == 2:
        program.model.last.requires_grad_(True)


def frozen_first(make):
    def program():
        made = Program(Net(), squared, make)
        made.model.last.requires_grad_(False)
        return made
    return program


@pytest.mark.parametrize("make", [
    torch.optim.Adam, lambda p: torch.optim.AdamW(p, foreach=True), torch.optim.RMSprop, lambda p: torch.optim.Adagrad(p, lr_decay=0.1),
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5), torch.optim.Adafactor,
], ids=["adam", "adamw foreach", "rmsprop", "adagrad", "sgd", "adafactor"])
def test_a_parameter_that_is_unfrozen_counts_its_own_steps(make):
    assert compare(frozen_first(make), unfreeze, steps=5, recheck=2) is None


def flag(name, value):
    def change(program, number):
        if number == 2:
            program.optimizer.param_groups[0][name] = value
    return change


def counts_by_hand(program, number):
    if number == 2:
        program.optimizer.state[program.model.first.weight]["step"] += 3


def forget_state(program, number):
    if number == 2:
        program.optimizer.state.clear()


def forget_one(program, number):
    if number == 2:
        del program.optimizer.state[program.model.last.bias]


def remove(program, number):
    if number == 2:
        program.optimizer.state.pop(program.optimizer.param_groups[0]["params"].pop(0))


def move(program, number):
    if number == 2:
        parameter = program.optimizer.param_groups[0]["params"].pop(0)
        program.optimizer.add_param_group({"params": [parameter], "lr": 0.1, "weight_decay": 0.1})


def scheduled(program, number):
    if number == 1:
        program.scheduler = torch.optim.lr_scheduler.ExponentialLR(program.optimizer, 0.5)
    else:
        program.scheduler.step()


def loaded(program, number):
    program.optimizer.load_state_dict(program.optimizer.state_dict())


EQUAL = {
    "maximize": flag("maximize", True), "weight decay": flag("weight_decay", 0.1), "foreach": flag("foreach", True), "betas": flag("betas", (0.5, 0.9)),
    "eps": flag("eps", 0.1), "lr as int": flag("lr", 1), "a count by hand": counts_by_hand, "state forgotten": forget_state, "one state forgotten": forget_one,
    "removed": remove, "moved to another group": move, "a scheduler": scheduled, "state loaded": loaded,
}


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
@pytest.mark.parametrize("name", EQUAL)
def test_optimizers_that_change(name):
    assert compare(net, EQUAL[name], recheck=2) is None


def hook(program, number):
    if number == 1:
        program.optimizer.register_step_post_hook(lambda optimizer, *_: [p.data.mul_(0.5) for g in optimizer.param_groups for p in g["params"]])


def pre_hook(program, number):
    if number == 1:
        program.optimizer.register_step_pre_hook(lambda optimizer, *_: [p.grad.mul_(0.5) for g in optimizer.param_groups for p in g["params"]] and None)


def patched(program, number):
    if number == 1:
        own = program.optimizer.step
        program.optimizer.step = lambda *args: [own(*args), program.model.first.weight.data.zero_()]


BY_PYTORCH = {
    "a hook": hook, "a hook before": pre_hook, "a patched step": patched, "fused": flag("fused", True), "lr as a tensor": flag("lr", torch.tensor(0.1)),
}
REFUSED = {
    "capturable": (flag("capturable", True), "capturable=True"), "amsgrad": (flag("amsgrad", True), "has no max_exp_avg_sq"),
}
by_pytorch = pytest.mark.filterwarnings("ignore:.*PyTorch's own optimizer.step")


@by_pytorch
@pytest.mark.parametrize("name", BY_PYTORCH)
def test_optimizers_that_pytorch_runs_itself(name):
    assert compare(net, BY_PYTORCH[name], recheck=1) is None


@by_pytorch
@pytest.mark.parametrize("name", REFUSED)
def test_optimizers_that_are_refused(name):
    between, expected = REFUSED[name]
    refusal = compare(net, between)
    assert refusal is not None and expected in refusal, refusal


@by_pytorch
def test_a_hook_of_every_optimizer():
    called = []
    handle = __import__("importlib").import_module("torch.optim.optimizer").register_optimizer_step_post_hook(lambda *_: called.append(1))
    try:
        assert compare(net) is None
        assert len(called) == 8
    finally:
        handle.remove()


@by_pytorch
def test_complex_parameters():
    class Complex(Net):
        def __init__(self):
            super().__init__()
            self.turn = nn.Parameter(torch.ones(4, dtype=torch.complex64))

        def forward(self, x):
            return (super().forward(x) * self.turn).real

    assert compare(lambda: Program(Complex(), squared)) is None


@pytest.mark.parametrize("lr", [float("inf"), float("nan")])
def test_learning_rates_that_are_no_numbers(lr):
    program = net()
    program.optimizer.param_groups[0]["lr"] = lr
    with pytest.raises(ebbtide.CaptureError, match="expected finite hyper-parameters"):
        ebbtide.step(program.model, squared, program.optimizer, program.batch(0))


# -- batches -----------------------------------------------------------------------------------------------------------------


class InPlace(Net):
    def forward(self, x, y=None):
        x.mul_(2)
        return super().forward(x) if y is None else super().forward(x + y)


class Halves(Net):
    def forward(self, x):
        return super().forward(torch.cat([x[:, 3:].exp(), x[:, :3]], 1))


def given(*tensors):
    target = torch.ones(5, 4)
    return lambda number: (*(t() if callable(t) else t for t in tensors), target)


BATCHES = {
    "meta": (Net, given(lambda: torch.empty(5, 6, device="meta")), "batch.0 is a meta tensor, which has no memory"),
    "conjugate": (Net, given(lambda: torch.ones(5, 6, dtype=torch.complex64).conj()), "conjugate or negative view"),
    "a part of a negative view": (Halves, given(lambda: torch.ones(5, 6, dtype=torch.complex64).conj().imag), "is a negative view, of which the step reads"),
    "sparse": (Net, given(lambda: torch.ones(5, 6).to_sparse()), "batch.0 is a sparse_coo tensor; expected a dense one"),
    "NumPy": (Net, given(lambda: numpy.ones((5, 6), dtype=numpy.float32)), "batch.0 is a numpy.ndarray; expected torch.from_numpy(x)"),
    "one tensor twice, in place": (InPlace, given(x := torch.ones(5, 6), x), "batch.1 shares memory with batch.0, and the step changes its inputs in place"),
    "overlapping, in place": (InPlace, given((z := torch.ones(6, 6))[:5], z[1:]), "batch.1 shares memory with batch.0"),
    "an object": (Net, given(lambda: object()), "batch.0 is a builtins.object; expected tensors, numbers"),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_that_are_refused(name):
    model, batches, expected = BATCHES[name]
    program = Program(model(), squared)
    with pytest.raises((ebbtide.CaptureError, TypeError, ValueError)) as refusal:
        step = ebbtide.step(program.model, squared, program.optimizer, batches(0), policy="none", measure=False)
        step(*batches(1))
    assert expected in str(refusal.value) and "\n" not in str(refusal.value)


class Weighted(Net):
    """By a buffer, and by a tensor that is none."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weights", torch.ones(4))
        self.factors = torch.ones(4)

    def forward(self, x):
        return super().forward(x) * self.weights * self.factors


def _negated(tensor):
    tensor.data = torch._neg_view(tensor.data)


STATE_VIEWS = {
    "a buffer": lambda model: setattr(model, "weights", torch._neg_view(model.weights)),
    "a buffer's data": lambda model: _negated(model.weights),
    "another tensor": lambda model: setattr(model, "factors", torch._neg_view(model.factors)),
    "another tensor's data": lambda model: _negated(model.factors),
    "a parameter's data": lambda model: _negated(model.first.weight),
}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", STATE_VIEWS)
def test_state_that_becomes_a_negative_view(name, first):
    program = Program(Weighted(), squared)
    if first:
        STATE_VIEWS[name](program.model)
    with pytest.raises(ebbtide.CaptureError, match="is a conjugate or negative view"):
        step = ebbtide.step(program.model, squared, program.optimizer, program.batch(0), policy="none", measure=False)
        step(*program.batch(0))
        STATE_VIEWS[name](program.model)
        step(*program.batch(1))


def test_a_fake_batch():
    from torch._subclasses.fake_tensor import FakeTensorMode

    program = net()
    step = ebbtide.step(program.model, squared, program.optimizer, program.batch(0), policy="none", measure=False)
    with FakeTensorMode():
        fakes = torch.empty(5, 6), torch.empty(5, 4)
    with pytest.raises(ValueError, match=r"batch\.0 is a fake tensor, which has no memory"):
        step(*fakes)
    step(*program.batch(0))


def test_a_batch_that_is_a_part_of_the_model():
    program = net()
    batch = program.model.first.weight.detach()[:5], torch.ones(5, 4)
    step = ebbtide.step(program.model, squared, program.optimizer, batch, policy="none", measure=False)
    with pytest.raises(ebbtide.CaptureError, match=r"batch\.0 shares memory with first\.weight"):
        step(*batch)


def test_one_tensor_twice_is_fine_where_nothing_changes_it():
    class Two(Net):
        def forward(self, x, y):
            return super().forward(x * y)

    x = torch.ones(5, 6)
    assert compare(lambda: Program(Two(), squared), batches=given(x, x)) is None
    assert compare(lambda: Program(InPlace(), squared), batches=given(lambda: torch.ones(5, 6))) is None


@pytest.mark.filterwarnings("ignore:the step is captured anew")
def test_numbers_in_a_batch_are_told_apart_by_type():
    class Times(Net):
        def forward(self, x, n):
            return super().forward(x) * (2 if n is True else 3 if type(n) is int else 5 if str(n)[0] == "-" else 7)

    values = [1, True, 1.0, 0.0, -0.0, float("nan"), True]
    assert compare(lambda: Program(Times(), squared), steps=7, batches=lambda n: (torch.ones(5, 6), values[n], torch.ones(5, 4))) is None


# -- contexts ----------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def setting(set_to, value, before):
    set_to(value)
    try:
        yield
    finally:
        set_to(before)


class Attending(Net):
    def forward(self, x):
        y = super().forward(x).unflatten(1, (2, 2)).unsqueeze(0)
        return nn.functional.scaled_dot_product_attention(y, y, y).flatten(2)[0] + torch.zeros(4)


EQUAL_INSIDE = {
    "deterministic": lambda: setting(torch.use_deterministic_algorithms, True, False),
    "mkldnn": lambda: torch.backends.mkldnn.flags(enabled=False),
    "sdpa": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    "precision": lambda: setting(torch.set_float32_matmul_precision, "medium", "highest"),
    "default type": lambda: setting(torch.set_default_dtype, torch.float64, torch.float32),
    "default device": lambda: torch.device("cpu"),
    "enabled again": torch.enable_grad,
    "saved": torch.autograd.graph.save_on_cpu,
    "saved with losses": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t.bfloat16() if t.is_floating_point() else t, lambda t: t.float()
                                                                         if t.is_floating_point() else t),
    "anomalies in words": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
}
REFUSED_INSIDE = {
    "autocast": (lambda: torch.autocast("cpu", torch.bfloat16), "inside torch.autocast"),
    "no_grad": (torch.no_grad, "where gradients are off"),
    "inference_mode": (torch.inference_mode, "where gradients are off"),
    "anomaly": (torch.autograd.detect_anomaly, "detect_anomaly"),
    "budget": (lambda: ebbtide.budget("1MiB", device="cpu"), "hooks pack what autograd saves"),
    "meta": (lambda: torch.device("meta"), ""),
}


@pytest.mark.filterwarnings("ignore:the step is captured anew", "ignore:Anomaly Detection")
@pytest.mark.parametrize("name", EQUAL_INSIDE)
def test_settings_that_a_step_is_captured_for(name):
    around = EQUAL_INSIDE[name]
    assert compare(lambda: Program(Attending(), squared), around=lambda n: around() if n % 2 else contextlib.nullcontext(), recheck=1) is None


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("name", [name for name in REFUSED_INSIDE if name != "meta"])
def test_contexts_that_are_refused(name):
    around, expected = REFUSED_INSIDE[name]
    program = net()
    step = ebbtide.step(program.model, squared, program.optimizer, program.batch(0), policy="none", measure=False)
    step(*program.batch(0))
    with pytest.raises(ebbtide.CaptureError) as refusal, around():
        step(*program.batch(0))
    assert expected in str(refusal.value)
    with pytest.raises(ebbtide.CaptureError), around():
        ebbtide.step(program.model, squared, program.optimizer, program.batch(0), policy="none", measure=False)
    step(*program.batch(0))


def test_a_mode_of_ones_own():
    from torch.utils.flop_counter import FlopCounterMode

    program = net()
    step = ebbtide.step(program.model, squared, program.optimizer, program.batch(0), policy="none", measure=False)
    with pytest.raises(ebbtide.CaptureError, match="FlopCounter"), FlopCounterMode(display=False):
        step(*program.batch(0))
