"""Guards, taken out one by one: the oracle must then find a difference. Each row takes a guard out of this process for good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .program import Program


def _without_notes(kind: str) -> Callable[[], None]:
    """Of what Python code has read, one kind of holder is no longer compared."""

    def take_out() -> None:
        from ebbtide.capture.watch import guards, notes

        begin = guards.Guards.__init__

        def init(self: Any, noted: Any, *rest: Any) -> None:
            begin(self, [note for note in noted if type(note) is not getattr(notes, kind)], *rest)

        guards.Guards.__init__ = init  # type: ignore[method-assign]

    return take_out


def _without(module: str, name: str, instead: Any) -> Callable[[], None]:
    """`name` may be Class.method."""

    def take_out() -> None:
        import importlib

        holder: Any = importlib.import_module(module)
        *path, last = name.split(".")
        for part in path:
            holder = getattr(holder, part)
        setattr(holder, last, instead)

    return take_out


def _shapes_alone(leaves: Any) -> Any:
    return tuple(tuple(getattr(leaf, "shape", ())) for _, leaf in leaves)


def _program(model: str, change: str, optimizer: str = "sgd") -> Program:
    return Program(1, "step", model, optimizer, mutations=((2, change),))


# By name: how the guard is taken out, and a program that must differ without it.
GUARDS: dict[str, tuple[Callable[[], None], Program]] = {
    "attributes of modules": (_without_notes("Attributes"), _program("mlp", "dropout_p")),
    "entries of dicts": (_without_notes("Entries"), _program("attributes", "item_of_a_dict")),
    "items of lists": (_without_notes("Items"), _program("attributes", "item_of_a_list")),
    "globals": (_without_notes("Globals"), _program("mlp, loss with a global", "global_number")),
    "closures": (_without_notes("Fields"), _program("mlp, loss with a closure", "closure_replaced")),
    "the optimizer": (_without("ebbtide.capture.optimizers.update", "Update.still_fits", lambda self: True), _program("mlp in double", "maximize", "momentum")),
    "contexts": (_without("ebbtide.step.step", "contexts", lambda device: ()), _program("transformer", "within_sdpa_by_matmuls")),
    "forms of batches": (_without("ebbtide.step.step", "form_of", _shapes_alone), _program("mlp without dropout", "strides")),
    "all that was read": (_without("ebbtide.step.guards", "StepGuards.hold", lambda self: True), _program("attributes", "number")),
}
