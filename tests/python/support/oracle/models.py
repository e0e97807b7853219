"""Models of the oracle: small ones that between them have what training programs have. A row of MODELS makes a Case.

They are large enough that what autograd saves is worth moving (4 KiB and more), and small enough to train in milliseconds.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import nn
from torch.nn import functional as F

WEIGHT = 1.0  # a global that a loss may read; mutations change it


@dataclasses.dataclass
class Case:
    """A model, its loss, and batches: `batch(k)` is that of step k, the same whenever it is asked for."""

    model: nn.Module
    loss_fn: Callable[..., torch.Tensor]
    batch: Callable[[int], tuple[Any, ...]]


def _generator(k: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 + k)


def rows(*shape: int, classes: int = 5, dtype: torch.dtype = torch.float32) -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
    def batch(k: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(*shape, generator=_generator(k), dtype=dtype), torch.randint(0, classes, shape[:1], generator=_generator(k + 500))

    return batch


def words(samples: int, length: int, vocabulary: int = 40) -> Callable[[int], tuple[torch.Tensor, torch.Tensor]]:
    def batch(k: int) -> tuple[torch.Tensor, torch.Tensor]:
        return tuple(torch.randint(0, vocabulary, (samples, length), generator=_generator(k + off)) for off in (0, 500))  # type: ignore[return-value]

    return batch


def flat_loss(out: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(out.flatten(0, -2), target.flatten())


def squared_loss(out: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(out, F.one_hot(target, 5).to(out.dtype))


class Mlp(nn.Module):
    """With a dropout, an activation that can be exchanged, and a scale that is a plain number."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(32, 48), nn.Linear(48, 48), nn.Linear(48, 5)
        self.act: nn.Module = nn.ReLU()
        self.dropout = nn.Dropout(p)
        self.scale = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.dropout(self.act(self.first(x)))
        x = self.act(self.second(x)) * self.scale
        return self.last(x)


class Cnn(nn.Module):
    def __init__(self, norm: str = "batch") -> None:
        super().__init__()
        norms = {"batch": lambda: nn.BatchNorm2d(8), "group": lambda: nn.GroupNorm(2, 8), "instance": lambda: nn.InstanceNorm2d(8, affine=True)}
        self.conv1, self.norm1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), norms[norm]()
        self.conv2, self.norm2 = nn.Conv2d(8, 8, 3, padding=1, groups=2), norms[norm]()
        self.act: nn.Module = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(2)
        self.last = nn.Linear(8 * 16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.norm1(self.conv1(x)))
        x = self.pool(x + self.act(self.norm2(self.conv2(x))))
        return self.last(x.flatten(1))


class Recurrent(nn.Module):
    def __init__(self, cell: str) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 16)
        self.cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell, "rnn": nn.RNNCell}[cell](16, 24)
        self.last = nn.Linear(24, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: Any = None
        out = []
        for part in self.words(x).unbind(1):
            hidden = self.cell(part, hidden)
            out.append(hidden[0] if isinstance(hidden, tuple) else hidden)
        return self.last(torch.stack(out, 1))


class Layered(nn.Module):
    """nn.LSTM and nn.GRU, as layers."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.words, self.layers, self.last = nn.Embedding(40, 16), kind(16, 24, 2, batch_first=True), nn.Linear(24, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layers(self.words(x))[0])


class Attention(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.p = p
        self.dropout = nn.Dropout(p)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        a = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0, is_causal=True)
        x = x + self.dropout(self.out(a.transpose(1, 2).flatten(2)))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, p: float = 0.0, tied: bool = False) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(40, 32), nn.Parameter(torch.randn(12, 32) * 0.1)
        self.blocks = nn.ModuleList([Attention(p), Attention(p)])
        self.last = nn.Linear(32, 40, bias=False)
        if tied:
            self.last.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.words(x) + self.places
        for block in self.blocks:
            h = block(h)
        return self.last(h)


class Encoder(nn.Module):
    """PyTorch's own layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 48, dropout=0.1, batch_first=True)
        self.last = nn.Linear(32, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.layer(self.words(x)))


class Attributes(Mlp):
    """Reads attributes of all kinds: numbers, flags, lists, dicts, plain tensors, buffers."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.flag, self.factors, self.named = True, [1.0, 0.5], {"shift": 0.1}
        self.mask = torch.ones(48)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("offset", torch.full((48,), 0.05), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.first(x)) * self.factors[0] + self.offset
        x = x * self.mask if self.flag else x
        self.seen.add_(1)
        return self.last(self.act(self.second(x)) * self.scale + self.named["shift"])


class Counting(Mlp):
    """Counts its calls and computes with the count."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return super().forward(x) / (1 + 0.1 * self.calls)


class Hidden(nn.Module):
    """Keeps a hidden state from batch to batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(32, 48), nn.Linear(48, 5)
        self.hidden = torch.zeros(48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.tanh(self.first(x) + self.hidden)
        self.hidden = h.detach().mean(0)
        return self.last(h)


class Drawing(Mlp):
    """Draws in Python: whole layers are left out by chance."""

    def __init__(self, numpys: bool) -> None:
        super().__init__(0.0)
        self.numpys = numpys

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        draw = numpy.random.rand() if self.numpys else random.random()
        x = self.act(self.first(x))
        if draw < 0.5:
            x = x + self.act(self.second(x))
        return self.last(x) * (1 + draw)


class Seeding(Mlp):
    """Sets the random state in forward."""

    def __init__(self, forks: bool) -> None:
        super().__init__(0.3)
        self.forks = forks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.forks:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(11)
                x = x + 0.1 * torch.randn_like(x)
        else:
            torch.manual_seed(12)
        return super().forward(x)


class _Square(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 2 * x * grad


class _Counted(torch.autograd.Function):
    """With a side effect: what its backward does depends on how often it ran."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, owner: Any) -> torch.Tensor:
        ctx.owner = owner
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.owner.backwards += 1
        return grad / ctx.owner.backwards, None


class Functions(nn.Module):
    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(32, 48), nn.Linear(48, 5)
        self.counts, self.backwards = counts, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        h = _Counted.apply(h, self) if self.counts else _Square.apply(h)
        return self.last(h)


class ManyOps(nn.Module):
    """Views, in-place ops, indexing, sorting, complex numbers, branches on shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(32, 64), nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x).clone()
        h[:, ::2].mul_(0.5)
        h = torch.view_as_real(torch.view_as_complex(h.unflatten(1, (32, 2))) * (1 + 0.5j)).flatten(1)
        h = h.sort(dim=1).values[:, :32] + h.flip(1)[:, 32:] if x.shape[0] > 8 else h[:, :32]
        return self.last(torch.where(h > 0, h, h.exp() - 1))


class ComplexWeights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 24, dtype=torch.complex64) * 0.2)
        self.last = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last((x.to(torch.complex64) @ self.weight).abs())


class Smooth(nn.CrossEntropyLoss):
    """A loss with attributes that a user may change."""


def global_loss(out: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(out, target) * WEIGHT


def closure_loss() -> Callable[..., torch.Tensor]:
    share, weight = {"of": 1.0}, 0.01

    def loss(out: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(out, target) * share["of"] + weight * out.square().mean()

    def set_weight(value: float) -> None:
        nonlocal weight
        weight = value

    loss.share, loss.set_weight = share, set_weight  # type: ignore[attr-defined]
    return loss


MODELS: dict[str, Callable[[], Case]] = {
    "mlp": lambda: Case(Mlp(), nn.CrossEntropyLoss(), rows(32, 32)),
    "mlp without dropout": lambda: Case(Mlp(0.0), nn.CrossEntropyLoss(), rows(32, 32)),
    "mlp, smoothed loss": lambda: Case(Mlp(0.0), Smooth(label_smoothing=0.1), rows(32, 32)),
    "mlp, loss with a global": lambda: Case(Mlp(0.0), global_loss, rows(32, 32)),
    "mlp, loss with a closure": lambda: Case(Mlp(0.0), closure_loss(), rows(32, 32)),
    "mlp in double": lambda: Case(Mlp(0.0).double(), nn.CrossEntropyLoss(), rows(32, 32, dtype=torch.float64)),
    "sequential": lambda: Case(nn.Sequential(nn.Linear(32, 48), nn.Tanh(), nn.Dropout(0.2), nn.Linear(48, 5)), nn.CrossEntropyLoss(), rows(32, 32)),
    "cnn": lambda: Case(Cnn(), nn.CrossEntropyLoss(), rows(8, 3, 8, 8)),
    "cnn, group norm": lambda: Case(Cnn("group"), nn.CrossEntropyLoss(), rows(8, 3, 8, 8)),
    "cnn, instance norm": lambda: Case(Cnn("instance"), nn.CrossEntropyLoss(), rows(8, 3, 8, 8)),
    "lstm cell": lambda: Case(Recurrent("lstm"), flat_loss, words(8, 6)),
    "gru cell": lambda: Case(Recurrent("gru"), flat_loss, words(8, 6)),
    "rnn cell": lambda: Case(Recurrent("rnn"), flat_loss, words(8, 6)),
    "lstm": lambda: Case(Layered(nn.LSTM), flat_loss, words(8, 12)),
    "gru": lambda: Case(Layered(nn.GRU), flat_loss, words(8, 12)),
    "transformer": lambda: Case(Transformer(), flat_loss, words(4, 12)),
    "transformer, tied, with dropout": lambda: Case(Transformer(0.1, tied=True), flat_loss, words(4, 12)),
    "encoder layer": lambda: Case(Encoder(), flat_loss, words(4, 12)),
    "attributes": lambda: Case(Attributes(), nn.CrossEntropyLoss(), rows(32, 32)),
    "counting": lambda: Case(Counting(), nn.CrossEntropyLoss(), rows(32, 32)),
    "hidden state": lambda: Case(Hidden(), nn.CrossEntropyLoss(), rows(32, 32)),
    "draws in Python": lambda: Case(Drawing(False), nn.CrossEntropyLoss(), rows(32, 32)),
    "draws in NumPy": lambda: Case(Drawing(True), nn.CrossEntropyLoss(), rows(32, 32)),
    "seeds in forward": lambda: Case(Seeding(False), nn.CrossEntropyLoss(), rows(32, 32)),
    "forks in forward": lambda: Case(Seeding(True), nn.CrossEntropyLoss(), rows(32, 32)),
    "autograd.Function": lambda: Case(Functions(False), nn.CrossEntropyLoss(), rows(32, 32)),
    "autograd.Function with a side effect": lambda: Case(Functions(True), nn.CrossEntropyLoss(), rows(32, 32)),
    "many ops": lambda: Case(ManyOps(), nn.CrossEntropyLoss(), rows(32, 32)),
    "complex weights": lambda: Case(ComplexWeights(), nn.CrossEntropyLoss(), rows(32, 32)),
    "regression": lambda: Case(nn.Sequential(nn.Linear(32, 48), nn.SiLU(), nn.Linear(48, 5)), squared_loss, rows(32, 32)),
    "margin loss": lambda: Case(Mlp(0.0), nn.MultiMarginLoss(), rows(32, 32)),
    "nll loss": lambda: Case(nn.Sequential(nn.Linear(32, 5), nn.LogSoftmax(1)), nn.NLLLoss(weight=torch.tensor([1.0, 2, 1, 1, 3])), rows(32, 32)),
}
# Seldom written, and hard on whoever captures: they come less often.
UNUSUAL = ("counting", "hidden state", "draws in Python", "draws in NumPy", "seeds in forward", "forks in forward",
           "autograd.Function with a side effect", "complex weights")
# Ops of theirs make more than their shapes tell: the step has to be measured.
TO_MEASURE = ("lstm", "gru", "regression")
