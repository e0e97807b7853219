"""A training program made of a seed: a model with its loss, an optimizer, a context, and what is done between its steps."""

from __future__ import annotations

import dataclasses
import random

from .contexts import CONTEXTS
from .models import MODELS, UNUSUAL
from .mutations import MUTATIONS, World
from .optimizers import COMMON, OPTIMIZERS

WAYS = ("step", "compile", "budget", "shared")
_SHARES = (6, 2, 1, 1)  # of programs, by way
STEPS = 5


@dataclasses.dataclass(frozen=True)
class Program:
    """`mutations`: (before which step, its name). The first step is always as it was captured."""

    seed: int
    way: str
    model: str
    optimizer: str
    context: str = "none"
    mutations: tuple[tuple[int, str], ...] = ()
    steps: int = STEPS

    def __str__(self) -> str:
        changes = "".join(f", {name} before step {at}" for at, name in self.mutations)
        return f"seed {self.seed}, {self.way}: {self.model}, {self.optimizer}, context {self.context}{changes}"


def make_program(seed: int, way: str | None = None) -> Program:
    """The same for the same seed. With a `way` it is the same program, run by that way."""
    draw = random.Random(f"oracle {seed}")
    drawn = draw.choices(WAYS, _SHARES)[0]
    chosen = way or drawn
    model = draw.choice(UNUSUAL if draw.random() < 0.15 else [name for name in MODELS if name not in UNUSUAL])
    optimizer = draw.choice(COMMON) if draw.random() < 0.8 else draw.choice(list(OPTIMIZERS))
    context = draw.choice(list(CONTEXTS)) if draw.random() < 0.2 else "none"
    case = MODELS[model]()
    world = World(case.model, case.loss_fn, OPTIMIZERS[optimizer](case.model), seed)
    names = [name for name, mutation in MUTATIONS.items() if mutation.of(world) and chosen in mutation.ways]
    changes = sorted((draw.randrange(1, STEPS), draw.choice(names)) for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3))))
    return Program(seed, chosen, model, optimizer, context, tuple(changes))
