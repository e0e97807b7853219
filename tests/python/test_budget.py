"""with ebbtide.budget(...): eager training keeps a limit, by the count of torch's own allocations, with the same numbers."""

import copy

import pytest

torch = pytest.importorskip("torch")

from support import run_models  # noqa: E402
from support.replay import loss_of, same_bits  # noqa: E402
from torch import nn  # noqa: E402

import ebbtide  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


def budget_of(limit):
    return ebbtide.budget(limit, device="cpu")


def trained(model, loss_fn, batch, steps=4):
    torch.manual_seed(7)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, loss_fn, batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().clone())
    return losses


def deep():
    """16 layers of 64 KiB each, in a chain: plain training holds all of them."""
    model = nn.Sequential(*[layer for _ in range(16) for layer in (nn.Linear(64, 64), nn.Tanh())])
    return model, nn.functional.mse_loss, (torch.randn(256, 64), torch.randn(256, 64))


@pytest.mark.parametrize("make, share", [(deep, 0.5), (run_models.cnn, 0.7)])
def test_same_numbers_in_less_memory(make, share):
    model, loss_fn, batch = make()
    spare, other = copy.deepcopy(model), copy.deepcopy(model)
    with budget_of("1TiB") as plain:
        expected = trained(other, loss_fn, batch)
    assert plain.report()["copied_out_bytes"] == 0
    limit = int(plain.report()["peak_bytes"] * share)
    with budget_of(limit) as budget:
        found = trained(model, loss_fn, batch)
    assert all(same_bits(a, b) for a, b in zip(found, expected))
    assert all(same_bits(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values()))
    report = budget.report()
    assert report["peak_bytes"] <= limit
    assert report["copied_in_bytes"] > 0
    assert all(same_bits(a, b) for a, b in zip(trained(spare, loss_fn, batch), expected))  # and none afterwards


def test_a_limit_that_cannot_be_kept_raises():
    model, loss_fn, batch = deep()
    with pytest.raises(torch.OutOfMemoryError, match="the budget of 150000 bytes cannot be kept"):
        with budget_of(150_000):
            trained(model, loss_fn, batch)
    with budget_of("1GiB"):
        trained(model, loss_fn, batch, 1)


def test_what_is_referred_to_stays():
    x = torch.randn(64, 64, requires_grad=True)  # 16 KiB
    with budget_of(8 * 16384) as budget:
        kept = [x.exp()]
        for _ in range(3):
            kept.append(kept[-1].sin())
        shown = kept[1].clone()
        chain = kept[-1]
        for _ in range(8):
            chain = chain.tanh()
        assert same_bits(kept[1], shown)
        del kept, shown
        gradient, = torch.autograd.grad(chain.sum(), x, retain_graph=True)
        again, = torch.autograd.grad(chain.sum(), x)
    assert same_bits(gradient, again)
    assert 0 < budget.report()["copied_out_bytes"]
    assert budget.report()["peak_bytes"] <= 8 * 16384


def test_changes_in_place_are_found():
    with budget_of("1GiB"):
        x = torch.randn(64, 64, requires_grad=True)
        y = x.exp()
        loss = y.sin().sum()
        y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_mistakes_are_told():
    for wrong in ("50%", True, None, "many"):
        with pytest.raises(ValueError, match="budget .*: expected bytes"):
            budget_of(wrong)
    with budget_of("1GiB"):
        with pytest.raises(RuntimeError, match="in force already"):
            with budget_of("1GiB"):
                pass


def test_holds_for_compiled_code_too():
    model, loss_fn, batch = deep()
    expected = trained(copy.deepcopy(model), loss_fn, batch)
    torch._dynamo.reset()
    with budget_of("2MiB") as budget:
        found = trained(torch.compile(model, backend="aot_eager", dynamic=True), loss_fn, batch)
    assert all(same_bits(a, b) for a, b in zip(found, expected))
    assert budget.report()["peak_bytes"] <= 2**21
