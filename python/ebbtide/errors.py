"""The exceptions that Ebbtide raises for what is wrong with a request. Each message is one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .shared.job import Job


class CaptureError(ValueError):
    """The step cannot be captured. The message names the user's file and line where they are known."""


class HandoverError(CaptureError):
    """The model cannot be handed to a process of its own, as it cannot be pickled or unpickled."""


class PlanError(ValueError):
    """A graph, a plan, a profile or an option of planning is not what was expected."""


class BudgetError(PlanError):
    """No plan keeps the budget. `minimum_budget_bytes`: the smallest found to work; None: none is known."""

    def __init__(self, message: str, minimum: int | None = None) -> None:
        super().__init__(message)
        self.minimum_budget_bytes = minimum


class SharedError(RuntimeError):
    """Some jobs have failed; the others have run to their end. `jobs`: those that failed, each with its `error`."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        super().__init__("; ".join(f"{job.name}: {type(job.error).__name__}: {_first_line(job.error)}" for job in jobs))
        self.jobs = list(jobs)


def _first_line(error: BaseException | None) -> str:
    return (str(error).splitlines() or [""])[0]
