"""Ops of the user's own: what they do beside their result is not known, so they run once per step, and what they keep is found."""

import copy

import pytest
import torch
from torch.nn import functional as F

import ebbtide

kept, calls = [], []


@torch.library.custom_op("ebbtide_tests::noise", mutates_args=())
def noise(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand_like(x)


@torch.library.custom_op("ebbtide_tests::counting", mutates_args=())
def counting(x: torch.Tensor) -> torch.Tensor:
    calls.append(1)
    return x * (1 + len(calls) / 16)


@torch.library.custom_op("ebbtide_tests::keeps", mutates_args=())
def keeps(x: torch.Tensor, what: str) -> torch.Tensor:
    out, between = x * 2, x + 1
    kept.append({"input": x, "view": x[0], "output": out, "between": between, "nothing": None}[what])
    return out


for op in (noise, counting):
    op.register_fake(torch.empty_like)
    op.register_autograd(lambda ctx, gradient: gradient)
keeps.register_fake(lambda x, what: torch.empty_like(x))
keeps.register_autograd(lambda ctx, gradient: (gradient * 2, None))


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(5))
        self.function = function

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(self.function(torch.sin(layer(x)).exp()))
        return x


def trained(train_step, model, batches):
    torch.manual_seed(5)
    calls.clear()
    losses = [train_step(*batch).item() for batch in batches]
    return losses, [p.detach().clone() for p in model.parameters()], torch.get_rng_state()


def plain_step(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


@pytest.mark.parametrize("function", [noise, counting], ids=["draws", "counts its calls"])
def test_an_op_that_is_not_pure_runs_once_per_step(function):
    torch.manual_seed(0)
    model = Model(lambda x: function(x))  # not the op itself, which cannot be copied
    other = copy.deepcopy(model)
    batches = [(torch.randn(64, 32), torch.randn(64, 32)) for _ in range(3)]
    expected = trained(plain_step(other, torch.optim.Adam(other.parameters())), other, batches)
    optimizer = torch.optim.Adam(model.parameters())
    step = ebbtide.step(model, F.mse_loss, optimizer, batches[0], budget="92%", link=1e6)
    losses, parameters, random = trained(step, model, batches)
    assert losses == expected[0]
    assert all(torch.equal(a, b) for a, b in zip(parameters, expected[1]))
    assert torch.equal(random, expected[2])


def test_it_is_marked_in_the_graph():
    model = Model(noise)
    graph = ebbtide.capture(model, F.mse_loss, torch.optim.SGD(model.parameters(), 0.1), (torch.randn(4, 32), torch.randn(4, 32))).graph
    own = [op for op in graph["ops"] if op["schema"].startswith("ebbtide_tests::")]
    assert len(own) == 5 and all(op["deterministic"] is False and op["random"] for op in own)
    assert all(op.get("deterministic", True) for op in graph["ops"] if op not in own)


@pytest.mark.parametrize("what", ["input", "view", "output", "between"])
def test_an_op_that_keeps_a_tensor_is_refused(what):
    kept.clear()
    model = Model(lambda x: keeps(x, what))
    optimizer = torch.optim.Adam(model.parameters())
    batch = torch.randn(16, 32), torch.randn(16, 32)
    step = ebbtide.step(model, F.mse_loss, optimizer, batch)
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(RuntimeError, match=r"ebbtide_tests::keeps.*keeps a tensor"):
        step(*batch)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    del step
    kept[0].sum()  # its memory is there, whatever it holds


def test_an_op_that_keeps_nothing_is_not():
    model = Model(lambda x: keeps(x, "nothing"))
    batch = torch.randn(16, 32), torch.randn(16, 32)
    step = ebbtide.step(model, F.mse_loss, torch.optim.Adam(model.parameters()), batch)
    for _ in range(3):
        step(*batch)


class Moving(torch.nn.Module):
    """Batch norm in evaluation, whose statistics move before backward."""

    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm1d(32) for _ in range(4))
        self.layers = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms):
            norm.eval()
            x = torch.sin(norm(torch.exp(torch.tanh(layer(x)))))
            norm.train()
            x = x + norm(x)
        return x


@pytest.mark.parametrize("way", ["step", "compile"])
def test_batch_norm_in_evaluation_whose_statistics_move(way):
    torch.manual_seed(0)
    model = Moving()
    other = copy.deepcopy(model)
    batches = [(torch.randn(128, 32), torch.randn(128, 32)) for _ in range(3)]
    losses, expected, _ = trained(plain_step(other, torch.optim.SGD(other.parameters(), 0.1)), other, batches)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    if way == "step":
        step = ebbtide.step(model, F.mse_loss, optimizer, batches[0], budget="70%", link=1e6)
    else:
        torch._dynamo.reset()
        step = plain_step(torch.compile(model, backend="ebbtide", options={"budget": "70%", "link": 1e6}), optimizer)
    found, parameters, _ = trained(step, model, batches)
    assert found == losses
    assert all(torch.equal(a, b) for a, b in zip(parameters, expected))
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), other.buffers()))
