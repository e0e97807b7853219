"""Ebbtide's C++ libraries in this process: graphs, plans, the jobs of the command line, the engine. No torch here."""

from . import _core
from ._core import (
    AnyBatch,
    Engine,
    EstimateResult,
    Gate,
    Graph,
    Held,
    Plan,
    PlanResult,
    Pool,
    Profile,
    Profiler,
    Scope,
    SharedArranger,
    SharedPool,
    advise,
    cluster,
    estimate,
    explain,
    fit,
    hold_generator,
    inspect,
    pack,
    plan,
    release_generator,
    replay,
    scratch_by_op,
    share,
    simulate,
    version,
    without_scratch_rule,
)


def library_path() -> str:
    """Of the library that all of this is in."""
    return _core.__file__


__all__ = [
    "AnyBatch", "Engine", "EstimateResult", "Gate", "Graph", "Held", "Plan", "PlanResult", "Pool", "Profile", "Profiler",
    "Scope", "SharedArranger", "SharedPool", "advise", "cluster", "estimate", "explain", "fit", "hold_generator", "inspect", "library_path", "pack", "plan",
    "release_generator", "replay", "scratch_by_op", "share", "simulate", "version", "without_scratch_rule",
]
