"""Many programs in processes of their own: one that ends its process, or never ends, is a result as others are."""

from __future__ import annotations

import collections
import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable

from .program import Program, make_program
from .run import AS_TORCH, CRASHED, DIFFERENT, EQUAL, REFUSED, Result, run

# PyTorch's own kernels for bfloat16 end the process where a machine tells of AMX and does not have it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
_SECONDS = 300  # that one program may take; some are captured anew at each step
_CHUNK = 25  # programs per process


def run_many(seeds: Iterable[int], way: str | None = None, note: Callable[[Result], object] = lambda result: None,
             setup: Callable[[], object] = lambda: None) -> list[Result]:
    """`setup` is called in each process first. This process runs none of them, so that it can be forked."""
    waiting = collections.deque(make_program(seed, way) for seed in seeds)
    results = []
    while waiting:
        chunk = [waiting.popleft() for _ in range(min(_CHUNK, len(waiting)))]
        done = _in_child(chunk, setup, note)
        results += done
        waiting.extendleft(reversed(chunk[len(done):]))
    return results


def _in_child(programs: list[Program], setup: Callable[[], object], note: Callable[[Result], object]) -> list[Result]:
    """Results of the programs in order; where the process ended early, the last is of the program that ended it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(programs, setup, writing)
    os.close(writing)
    results: list[Result] = []
    ended = ""
    with os.fdopen(reading, "rb") as pipe:
        while len(results) < len(programs):
            if not select.select([pipe], [], [], _SECONDS)[0]:
                os.kill(child, signal.SIGKILL)
                ended = f"did not end within {_SECONDS} s"
                break
            try:
                results.append(pickle.load(pipe))
            except EOFError:
                break
            note(results[-1])
    _, status = os.waitpid(child, 0)
    if len(results) < len(programs):
        why = ended or (f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"ended with code {os.waitstatus_to_exitcode(status)}")
        results.append(Result(programs[len(results)], CRASHED, f"the process {why}"))
        note(results[-1])
    return results


def _work(programs: list[Program], setup: Callable[[], object], writing: int) -> None:
    code = 1
    try:
        setup()
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            for program in programs:
                pipe.write(pickle.dumps(_run_safely(program)))
        code = 0
    finally:
        sys.stdout.flush()
        os._exit(code)


def _run_safely(program: Program) -> Result:
    try:
        return run(program)
    except Exception:  # of the oracle, or of what a way in does beside its steps
        return Result(program, CRASHED, traceback.format_exc()[-3000:])


def summary(results: list[Result], seconds: float) -> str:
    counts = collections.Counter(result.kind for result in results)
    taken = sum(1 for r in results if r.kind == REFUSED and r.compile_takes)
    return (f"{len(results)} programs in {seconds:.0f} s: {counts[EQUAL]} equal, {counts[REFUSED]} refused ({taken} of them torch.compile takes as one graph: "
            f"{taken / max(counts[EQUAL] + taken, 1):.1%}), {counts[AS_TORCH]} as torch.compile, not as eager code, "
            f"{counts[DIFFERENT]} different, {counts[CRASHED]} crashed")


def failures(results: list[Result]) -> list[Result]:
    return [result for result in results if result.kind in (DIFFERENT, CRASHED)]


def again(result: Result) -> str:
    """How to run it once more."""
    return f"PYTHONPATH=tests/python build/python -m support.oracle {result.program.seed} --way {result.program.way}"


def without_guards() -> int:
    """Each guard is taken out once, and its program must then differ. Tells those that make no difference."""
    from .guards_off import GUARDS

    idle = []
    for name, (take_out, program) in GUARDS.items():
        (result,) = _in_child([program], take_out, lambda result: None)
        if result.kind not in (DIFFERENT, CRASHED):
            idle.append(name)
            print(f"without the guard of {name}: {result.kind}: {program}")
    print(f"{len(GUARDS)} guards taken out one by one, {len(GUARDS) - len(idle)} differences found")
    return 1 if idle else 0


def main(first: int, count: int, way: str | None = None, verbose: bool = False) -> int:
    began = time.monotonic()

    def note(result: Result) -> None:
        if verbose or result.kind in (DIFFERENT, CRASHED):
            print(f"{result.kind}: {result.program}\n    {result.what}\n    {again(result)}", flush=True)

    results = run_many(range(first, first + count), way, note)
    print(summary(results, time.monotonic() - began))
    return 1 if failures(results) else 0
