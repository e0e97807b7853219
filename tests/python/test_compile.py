"""torch.compile(model, backend="ebbtide") trains to the last bit like plain PyTorch, within its budget, in loops as users write them."""

import copy
import re

import pytest

torch = pytest.importorskip("torch")

from support import run_models  # noqa: E402
from support.replay import loss_of, same_bits  # noqa: E402
from torch import nn  # noqa: E402

from ebbtide import BudgetError, CaptureError  # noqa: E402
from ebbtide.compile import backend as compiling  # noqa: E402
from ebbtide.compile.backend import reports  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_dynamo(one_thread, own_cache):
    torch._dynamo.reset()
    with torch._dynamo.config.patch(allow_rnn=True):  # else nn.LSTM stays outside the graph
        yield


def compiled(model, **options):
    return torch.compile(model, backend="ebbtide", options=options)


def trained(model, call, loss_fn, batch, steps=5, autocast=None):
    """Losses, and the random state that is left."""
    torch.manual_seed(7)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", autocast, enabled=autocast is not None):
            loss = loss_of(call, loss_fn, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return losses, torch.get_rng_state()


def last_of():
    """The newest graph that has run, with its plan."""
    return [piece.last[0] for job in compiling._jobs.values() for piece in job.pieces if piece.last][-1]


def check_same(model, plain, found, expected):
    for mine, other in zip(found[0], expected[0]):
        assert same_bits(mine, other)
    for name, value in plain.state_dict().items():
        assert same_bits(model.state_dict()[name], value), name
    assert torch.equal(found[1], expected[1])


def compare(name, budget, **how):
    """Trains compiled and plain; what the last graph reports."""
    model, loss_fn, batch = run_models.ALL[name]()
    plain, spare = copy.deepcopy(model), copy.deepcopy(model)
    expected = trained(plain, plain, loss_fn, batch, **how)
    try:
        found = trained(model, compiled(model, budget=budget), loss_fn, batch, **how)
    except BudgetError as error:
        model, budget = spare, error.minimum_budget_bytes
        found = trained(model, compiled(model, budget=budget), loss_fn, batch, **how)
    check_same(model, plain, found, expected)
    report = reports()[-1]
    assert report["peak_bytes"] <= report["budget_bytes"]
    return report


@pytest.mark.parametrize("budget", [None, "70%", "50%", "35%"])
def test_small_network_with_batch_norm_and_dropout(budget):
    report = compare("cnn", budget)
    if budget is None:
        assert report["peak_bytes"] == report["plain_peak_bytes"]
    else:
        assert report["peak_bytes"] < 0.75 * report["plain_peak_bytes"]


@pytest.mark.parametrize("name", ["lstm", "bert", "gpt2", "unet"])
def test_models_at_half_of_their_memory(name):
    report = compare(name, "50%")
    assert report["peak_bytes"] < 0.9 * report["plain_peak_bytes"]


def test_autocast():
    report = compare("cnn", "60%", autocast=torch.bfloat16)
    assert report["beyond_plan_bytes"] == 0  # batch norm's statistics are as large as planned


def test_a_budget_that_cannot_be_kept_names_one_that_can():
    model, loss_fn, batch = run_models.cnn()
    with pytest.raises(BudgetError) as caught:
        trained(model, compiled(model, budget="64KiB"), loss_fn, batch)
    smallest = caught.value.minimum_budget_bytes
    trained(model, compiled(model, budget=smallest), loss_fn, batch, steps=1)
    assert reports()[-1]["peak_bytes"] <= smallest


def test_evaluation_and_training_in_turn():
    model, loss_fn, batch = run_models.cnn()
    plain = copy.deepcopy(model)
    call = compiled(model, budget="70%")
    for _ in range(2):
        check_same(model, plain, trained(model, call, loss_fn, batch, 2), trained(plain, plain, loss_fn, batch, 2))
        model.eval(), plain.eval()
        with torch.no_grad():
            assert same_bits(call(batch[0]), plain(batch[0]))
        assert same_bits(call(batch[0]).detach(), plain(batch[0]).detach())  # a graph that nobody goes back through
        model.train(), plain.train()


def test_other_shapes():
    model, loss_fn, (x, y) = run_models.cnn()
    plain = copy.deepcopy(model)
    call = compiled(model, budget="60%")
    for size in (8, 4, 6, 8):
        batch = x[:size], y[:size]
        check_same(model, plain, trained(model, call, loss_fn, batch, 2), trained(plain, plain, loss_fn, batch, 2))


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x):
        shared = nn.functional.dropout(torch.relu(self.body(x)), 0.5, self.training)
        return self.left(shared), self.right(shared), shared.argmax(1)


@pytest.mark.parametrize("loss_fn", [
    lambda out: out[0].sum(),  # the gradient of a sum has strides of 0
    lambda out: out[1].square().mean(),
    lambda out: (out[0] * out[1].t().contiguous().t()).mean(),
])
def test_gradients_for_some_outputs_in_any_strides(loss_fn):
    model, x = TwoHeads(), torch.randn(4, 8)
    plain = copy.deepcopy(model)
    call = compiled(model, budget="90%")
    for _ in range(3):
        results = []
        for target, function in ((model, call), (plain, plain)):
            torch.manual_seed(3)
            target.zero_grad()
            loss_fn(function(x)).backward()
            results.append(torch.get_rng_state())
        assert torch.equal(*results)
        for mine, other in zip(model.parameters(), plain.parameters()):
            assert (mine.grad is None) == (other.grad is None)
            assert mine.grad is None or same_bits(mine.grad, other.grad)


def test_gradients_of_inputs_and_accumulated_ones():
    model = TwoHeads().eval()
    plain = copy.deepcopy(model)
    call = compiled(model, budget="90%")
    for _ in range(2):
        x = torch.randn(4, 8)
        mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        call(mine * 2)[0].square().sum().backward()
        plain(other * 2)[0].square().sum().backward()
        assert same_bits(mine.grad, other.grad)
    assert same_bits(model.left.weight.grad, plain.left.weight.grad)


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 6, dtype=torch.complex64))

    def forward(self, x):
        return x.to(torch.complex64) @ self.weight


def test_gradients_that_are_conjugate_views():
    torch.manual_seed(1)
    model = Complex()
    plain, x = copy.deepcopy(model), torch.randn(4, 8)
    for call in (compiled(model), plain):
        (call(x).conj() * (2 - 1j) @ torch.ones(6, 3, dtype=torch.complex64)).imag.sum().backward()
    assert same_bits(model.weight.grad, plain.weight.grad)


@pytest.mark.parametrize("view", [torch._neg_view, lambda x: torch.complex(x, x).conj()])
def test_inputs_that_are_views_of_other_numbers_are_refused(view):
    call = compiled(Complex())
    with pytest.raises(CaptureError, match="is a conjugate or negative view"):
        call(view(torch.randn(4, 8)))


class Broken(TwoHeads):
    def forward(self, x):
        x = torch.relu(self.body(x))
        torch._dynamo.graph_break()
        return self.left(x)


def test_pieces_of_a_broken_graph():
    model, x = Broken(), torch.randn(4, 8)
    plain = copy.deepcopy(model)
    plain(x).square().sum().backward()
    for options in ({"budget": "100%"}, {"budget": "1MiB", "pieces": 2}):
        torch._dynamo.reset()
        model.zero_grad()
        compiled(model, **options)(x).square().sum().backward()
        assert same_bits(model.body.weight.grad, plain.body.weight.grad)
        assert {r["budget_bytes"] for r in reports()[-2:]} == {524288} or options["budget"] == "100%"
    torch._dynamo.reset()
    with pytest.raises(BudgetError, match=r"test_compile\.py:\d+ .*pieces.: 2") as caught:
        compiled(model, budget="1MiB")(x)
    line = int(re.search(r"test_compile\.py:(\d+)", str(caught.value))[1])
    with open(__file__, encoding="utf-8") as file:
        assert "graph_break()" in file.readlines()[line - 1]


def test_a_second_call_before_backward_needs_a_share():
    model, x = TwoHeads().eval(), torch.randn(4, 8)
    plain = copy.deepcopy(model)
    call = compiled(model, budget="1MiB")
    first = call(x)
    with pytest.raises(BudgetError, match="called again before the backward pass"):
        call(x)
    del first  # lets go of what was kept for its backward
    call(x)[0].sum().backward()
    model.zero_grad()
    call = compiled(model, budget="1MiB", pieces=2)
    (call(x)[0] * call(2 * x)[0]).sum().backward()
    (plain(x)[0] * plain(2 * x)[0]).sum().backward()
    for mine, other in zip(model.parameters(), plain.parameters()):
        assert (mine.grad is None and other.grad is None) or same_bits(mine.grad, other.grad)


class Fan(torch.nn.Module):
    """Makes all that is wide before it makes any of it small."""

    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList(torch.nn.Linear(16, 4096) for _ in range(8))

    def forward(self, x):
        wide = [part(x) for part in self.parts]
        return sum(part.mean(1) for part in wide)


def test_ops_in_another_order():
    model, x = Fan(), torch.randn(64, 16)
    expected, reordered = model(x).detach(), {}
    for reorder in (False, True):
        torch._dynamo.reset()
        with torch.no_grad():
            assert same_bits(compiled(model, budget="6MiB", reorder=reorder)(x), expected)
        reordered[reorder] = last_of().planned.said["reordered"]
    assert reordered == {False: False, True: True}


def test_mistakes_are_told():
    model, x = TwoHeads(), torch.randn(4, 8)
    with pytest.raises(Exception, match="reorder 1: expected True or False"):
        compiled(model, reorder=1)(x)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="option 'buget': expected one of budget"):
        compiled(model, buget="1MiB")(x)
    torch._dynamo.reset()
    call = compiled(model, budget="100%")
    loss = call(x)[0].sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()
    loss = call(x)[0].sum()
    with torch.no_grad():
        model.left.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_forward_that_fails_has_changed_nothing():
    model, loss_fn, batch = run_models.cnn()
    plain = copy.deepcopy(model)
    call = compiled(model, budget="60%")
    trained(model, call, loss_fn, batch, 1)
    trained(plain, plain, loss_fn, batch, 1)
    prepared = last_of()
    engine = prepared.slots[0].engine(prepared)
    failed = 0
    for request in range(1, 60, 7):
        before = copy.deepcopy(model.state_dict())
        random = torch.get_rng_state()
        engine.fail_at(request)
        try:
            call(batch[0])
        except torch.OutOfMemoryError:
            failed += 1
            assert torch.equal(torch.get_rng_state(), random)
            assert all(same_bits(a, b) for a, b in zip(model.state_dict().values(), before.values()))
        else:
            break
    engine.fail_at(0)
    assert failed >= 2
    model.load_state_dict(before)
    check_same(model, plain, trained(model, call, loss_fn, batch, 2), trained(plain, plain, loss_fn, batch, 2))


_RANKS = """
import copy, sys, torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from ebbtide.compile.backend import reports
rank = int(sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.LazyLinear(10))
net(torch.zeros(1, 3, 10, 10))
ends = []
for way in ("plain", "compiled inside", "compiled outside"):
    model = copy.deepcopy(net)
    wrapped = DDP(model) if way != "compiled inside" else DDP(torch.compile(model, backend="ebbtide", options={"budget": "75%"}))
    if way == "compiled outside":
        wrapped = torch.compile(wrapped, backend="ebbtide", options={"budget": "75%"})
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(10 + rank)
    for _ in range(3):
        x, y = torch.randn(4, 3, 10, 10), torch.randint(0, 10, (4,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(wrapped(x), y).backward()
        optimizer.step()
    ends.append([p.detach().clone() for p in model.state_dict().values()])
    assert (way != "plain") == bool(reports())
for other in ends[1:]:
    assert all(torch.equal(a, b) for a, b in zip(ends[0], other))
dist.destroy_process_group()
"""


def test_two_ranks(tmp_path):
    import subprocess
    import sys

    ranks = [subprocess.Popen([sys.executable, "-c", _RANKS, str(rank), str(tmp_path / "meeting")], stderr=subprocess.PIPE, text=True)
             for rank in range(2)]
    for rank in ranks:
        _, said = rank.communicate(timeout=300)
        assert rank.returncode == 0, said[-2000:]


def test_a_buffer_that_is_changed_between_forward_and_backward():
    """Backward needs the mask as forward left it; plain PyTorch refuses, or has the same numbers where the change is not in place."""
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(8, 8)
            self.register_buffer("mask", torch.ones(8))

        def forward(self, x):
            self.mask.mul_(0.5)
            return (self.first(x) * self.mask).sum()

    torch.manual_seed(0)
    plain = Masked()
    mine = copy.deepcopy(plain)
    x = torch.randn(16, 8)
    plain(x).backward()
    loss = compiled(mine, measure=False)(x)
    mine.mask.fill_(7.0)
    loss.backward()
    assert same_bits(plain.first.weight.grad, mine.first.weight.grad) and mine.mask.eq(7).all()


class LargeAndSmall(nn.Module):
    """Two graphs: one with layers that a plan can compute again, one of a single op that cannot do with less."""

    def __init__(self, small_first):
        super().__init__()
        self.small_first = small_first
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.Tanh()) for _ in range(8)])
        self.head = nn.Linear(256, 256)

    def forward(self, x):
        if self.small_first:
            x = self.head(x)
            torch._dynamo.graph_break()
            return self.layers(x)
        x = self.layers(x)
        torch._dynamo.graph_break()
        return self.head(x)


@pytest.mark.parametrize("small_first", [False, True])
def test_a_share_survives_graph_breaks(small_first):
    model = LargeAndSmall(small_first)
    plain = copy.deepcopy(model)
    batch = torch.rand(128, 256), torch.rand(128, 256)
    expected = trained(plain, plain, nn.functional.mse_loss, batch)
    with pytest.warns(UserWarning, match="runs without a plan"):
        found = trained(model, compiled(model, budget="60%"), nn.functional.mse_loss, batch)
    check_same(model, plain, found, expected)
    said = reports()[-2:]
    shares = sorted(report["budget_bytes"] / report["plain_peak_bytes"] for report in said)
    assert shares[0] < 0.61 and shares[1] == 1


def test_the_largest_graph_keeps_to_its_share_or_is_refused():
    model = LargeAndSmall(small_first=False)
    batch = torch.rand(128, 256), torch.rand(128, 256)
    with pytest.raises(BudgetError, match="smallest budget that works"):
        trained(model, compiled(model, budget="5%"), nn.functional.mse_loss, batch, steps=2)
