"""Programs of a few lines that change something between two steps, or do something in a step: plain PyTorch and ebbtide.step run the same
calls on copies, and end with the same bits, or the step is refused."""

import copy
import inspect

import torch
from torch import nn

import ebbtide
from ebbtide import CaptureError
from support.replay import same_bits


class Net(nn.Module):
    """Two layers, dropout, batch norm and what tests hang on it."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.25), nn.Linear(8, 4)
        self.scale = 1.5

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.norm(self.first(x))))) * self.scale


class Program:
    """One side of a comparison: a model with what trains it. Cases are functions of it, called between steps."""

    optimizer_class, optimizer_options = torch.optim.Adam, {"lr": 0.01}

    def __init__(self, model, loss_fn, optimizer=None, on_gradients=None):
        self.model, self.loss_fn, self.on_gradients = model, loss_fn, on_gradients
        self.optimizer = (optimizer or (lambda p: torch.optim.Adam(p, lr=0.01)))(model.parameters())

    def batch(self, number):
        generator = torch.Generator().manual_seed(number)
        return tuple(torch.randn(5, size, generator=generator, dtype=torch.float32) for size in (6, 4))


def plain_step(program, batch):
    program.optimizer.zero_grad()
    loss = program.loss_fn(program.model(*batch[:-1]), batch[-1])
    loss.backward()
    if program.on_gradients is not None:
        program.on_gradients([p for p in program.model.parameters() if p.grad is not None])
    program.optimizer.step()
    return loss.detach()


def squared(out, target):
    return ((out - target) ** 2).mean()


def compare(make, between=None, steps=4, batches=None, around=None, **options):
    """Runs both; `between(program, number)` before each step but the first. Returns the refusal's text where there is one, after the state
    of both has been found the same up to there; None where all bits are equal. Raises AssertionError where they differ."""
    torch.manual_seed(3)
    sides = [make(), make()]
    sides[1].model.load_state_dict(copy.deepcopy(sides[0].model.state_dict()))
    plain, mine = sides
    batches = batches or plain.batch
    options = {"policy": "none", "measure": False, "recheck": 3} | options  # what guards miss is found
    refusal, step = None, None
    try:
        step = ebbtide.step(mine.model, mine.loss_fn, mine.optimizer, batches(0), on_gradients=mine.on_gradients, **options)
    except (CaptureError, TypeError, ValueError) as error:
        return text_of(error)
    state = torch.get_rng_state()
    for number in range(steps):
        losses, states, failures = [], [], []
        for side in sides:
            torch.set_rng_state(state)
            if between is not None and number:
                between(side, number)
            try:
                with around(number) if around is not None else torch.enable_grad():
                    losses.append(plain_step(side, batches(number)) if side is plain else step(*batches(number)))
            except (CaptureError, TypeError, ValueError, RuntimeError, KeyError, AssertionError) as error:
                failures.append((side, error))
            states.append(torch.get_rng_state())
        if failures:
            if failures[-1][0] is not mine:
                raise AssertionError(f"plain PyTorch raises, and ebbtide.step does not: {failures[0][1]!r}")
            refusal = text_of(failures[-1][1])
            break
        assert same_bits(*losses), f"step {number}: loss {losses[0].item()!r}, {losses[1].item()!r}"
        assert torch.equal(*states), f"step {number}: random state"
        state = states[0]
        assert_same(plain, mine, number)
    return refusal


def assert_same(plain, mine, number):
    a, b = plain.model.state_dict(), mine.model.state_dict()
    assert a.keys() == b.keys(), f"step {number}"
    for name, tensor in a.items():
        assert same_bits(tensor, b[name]), f"step {number}: {name}"
    a, b = plain.optimizer.state_dict()["state"], mine.optimizer.state_dict()["state"]
    assert a.keys() == b.keys(), f"step {number}: optimizer state of {sorted(a.keys() ^ b.keys())}"
    for key, values in a.items():
        for name, value in values.items():
            assert value is b[key][name] is None or same_bits(torch.as_tensor(value), torch.as_tensor(b[key][name])), f"step {number}: {key}.{name}"


def text_of(error):
    text = str(error)
    assert "\n" not in text and text, repr(error)
    return text


def line_in(function, text):
    """'file.py:12' of the line of a function that has this text."""
    lines, first = inspect.getsourcelines(function)
    return f":{first + next(n for n, line in enumerate(lines) if text in line)}"
