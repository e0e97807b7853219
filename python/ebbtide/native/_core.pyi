"""Ebbtide's C++ core."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, overload

from typing_extensions import Self

_Model: TypeAlias = str | Graph  # a MODEL as the command line takes it, or the step itself
_Gpu: TypeAlias = str | Profile  # a name that `ebbtide gpus` lists or the path of a profile, or the profile itself
_Link: TypeAlias = float | str | None  # bytes per second, or a text as "12GB/s"; None: the GPU's own
_Progress: TypeAlias = Callable[[str, float, str], object] | None  # of phase, share of it that is done, note
_Member: TypeAlias = tuple[str, Graph, Plan, str, int, int]  # name, graph, plan, policy, weight, priority
_Span: TypeAlias = tuple[int, int, int, int]  # storage, offset, address on the host, bytes

def version() -> str:
    """Version of the library, as in `ebbtide --version`."""

class Graph:
    """A training step as a graph (docs/graph-format.md). It has passed every check."""

    @overload
    def __init__(self, text: str, place: str = "graph") -> None:
        """Of its JSON text. `place` opens the message of the ValueError that says what is wrong with it."""

    @overload
    def __init__(self, text: bytes, place: str = "graph") -> None: ...

    @staticmethod
    def read(path: str) -> Graph:
        """Of a file, .json or .json.gz."""

    def to_json(self) -> str:
        """The canonical text: equal graphs have equal texts."""

    @property
    def name(self) -> str: ...

    @property
    def hash(self) -> str:
        """Of its storages, tensors and ops: what they are, not how long they take or what they are called."""

    @property
    def ops(self) -> int:
        """How many."""

    @property
    def storages(self) -> int:
        """How many."""

    def __repr__(self) -> str: ...

class AnyBatch:
    """A step at any batch, from two captures of it (docs/capture.md)."""

    def __init__(self, first: Graph, second: Graph) -> None: ...

    def confirm(self, third: Graph) -> None:
        """ValueError where a third capture is not what at() gives for its batch."""

    def at(self, batch: int) -> Graph: ...

class Plan:
    """Where every storage of a step is at every moment (docs/plan.md)."""

    def __init__(self, text: str, place: str = "plan") -> None:
        """Of the text of a plan file. One that was edited is refused."""

    def to_json(self) -> str:
        """The text of a plan file."""

    def check(self, graph: Graph) -> None:
        """PlanError where it is not for this graph, or not valid on it."""

    def in_its_order(self, graph: Graph) -> tuple[Graph, Plan]:
        """The graph with its ops in the order of the plan, and the plan for that graph. PlanError as with check()."""

    @property
    def graph_name(self) -> str: ...

    @property
    def graph_hash(self) -> str: ...

    @property
    def policy(self) -> str: ...

    @property
    def gpu(self) -> str: ...

    @property
    def budget_bytes(self) -> int: ...

    @property
    def peak_bytes(self) -> int: ...

    @property
    def time_ns(self) -> int: ...

    @property
    def plain_peak_bytes(self) -> int: ...

    @property
    def plain_time_ns(self) -> int: ...

    def __repr__(self) -> str: ...

class Profile:
    """A GPU: its memory and its speed."""

    def __init__(self, gpu: str) -> None:
        """A name that `ebbtide gpus` lists, or the path of a profile file."""

    @staticmethod
    def names() -> list[str]:
        """Of those that are built in."""

    @property
    def name(self) -> str: ...

    @property
    def product(self) -> str:
        """As the driver calls it."""

    @property
    def memory_bytes(self) -> int: ...

    @property
    def context_bytes(self) -> int: ...

    def __repr__(self) -> str: ...

class Gate:
    """A context for one at a time, in the process that made it. RuntimeError for all else."""

    def __init__(self, what: str) -> None: ...

    def check_process(self) -> None:
        """RuntimeError in another process."""

    def __enter__(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...

class Scope:
    """A context of which either all is entered or nothing, and which is left whatever a signal raises. Derived classes have
    `_open()` and `_shut(kind, error, trace)`, which may be called twice."""

    def __init__(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: object, error: object, trace: object) -> None: ...

class Held:
    """What a library's function `take` gave for `what`; given back with the object."""

    def __init__(self, take: int, give_back: int, owner: int, what: int) -> None: ...

    @property
    def number(self) -> int: ...

class Pool:
    """Memory of the CPU that stands for a device's, and threads that copy to it and from it."""

    def __init__(self, capacity: int, to_device: float = 0.0, to_host: float = 0.0, latency: int = 0) -> None: ...

    @staticmethod
    def cuda(capacity: int, ordinal: int = 0, pinned_limit: int = -1) -> Pool:
        """Memory of a GPU. See src/run/device/cuda_device.h."""

    @property
    def device(self) -> str:
        """As torch calls it."""

    @property
    def pinned(self) -> int: ...

    @property
    def waits(self) -> int: ...

    def skip_wait(self, n: int) -> None:
        """Leaves out the n-th wait of a stream for another from now on, for tests."""

    @property
    def capacity(self) -> int: ...

    def fail_at(self, call: int) -> None:
        """Has the n-th copy or access from now fail, for tests."""

class Engine:
    """Executes a plan for a captured graph. See src/run/engine/engine.h."""

    @overload
    def __init__(self, graph: Graph, plan: Plan, library: str, pool: Pool) -> None: ...

    @overload
    def __init__(
        self, graph: Graph, plan: Plan, library: str, shared: SharedPool, height_limit: int, groups: int = 16,
    ) -> None:
        """Beside others. `height_limit`: as SharedArranger gives it."""

    def attach(self, storage: int, storage_impl: int) -> None:
        """The user's storage for one of the graph's."""

    def move_in(self) -> bool:
        """What was attached goes to its place in the pool, unless it is there. Whether any was not."""

    def move_out(self) -> None:
        """What is in the pool goes back to memory of torch's own."""

    def step(self, scalars: Sequence[float], inputs: Sequence[_Span], outputs: Sequence[_Span]) -> dict[str, Any]:
        """One step. Inputs and outputs: (storage, offset, address on the host, bytes). MemoryError, RuntimeError or
        what a signal raised: nothing has changed."""

    def forward(self, outside: Sequence[tuple[int, int]]) -> None:
        """The first half of a step. Outside: (storage, address) of what is not in the pool. An error: nothing of the
        pool and the random state has changed."""

    def backward(self, outside: Sequence[tuple[int, int]]) -> dict[str, Any]:
        """The second half."""

    def abandon(self) -> None:
        """Forgets a step that is midway."""

    def measure_ops(self, runs: int, one_thread: bool) -> list[int] | None:
        """Runs the step on made-up state, before any is attached: the time of each op. None: an op refuses it."""

    def trace(self) -> str:
        """The last step's timeline, for Perfetto."""

    def page(self) -> str:
        """The last step as a page."""

    def set_requests(self, op: int, requests: Sequence[int]) -> None:
        """What Profiler.profile gave for the op."""

    def capture_ops(self, capturable: Sequence[bool]) -> None:
        """Whether each op may become part of a CUDA graph, from now on. See src/run/engine/captured_runs.h."""

    def fail_at(self, request: int) -> None:
        """Has the n-th request for memory from now fail, for tests."""

    @property
    def state_bytes(self) -> int: ...

    @property
    def height(self) -> int:
        """Of all else, in a lane."""

    @property
    def groups(self) -> int: ...

    def join(self, name: str, weight: int, priority: int, lane: int) -> None:
        """Takes memory for the state, which is to be moved in then. ValueError: there is none."""

    @property
    def joined(self) -> bool: ...

    def leave(self) -> None:
        """Gives it back; the state was moved out."""

    def stop(self) -> None:
        """Has the step that runs, and those to come, raise InterruptedError; from any thread."""

    def resume(self) -> None:
        """After stop: steps are taken again."""

    def rest(self) -> None:
        """No further step is taken for now: the turn goes to others at once."""

    def enter_random(self) -> None:
        """Until leave_random torch's generators are those of the step."""

    def leave_random(self) -> None: ...

    @property
    def random_state(self) -> bytes: ...

    @random_state.setter
    def random_state(self, arg: bytes, /) -> None: ...

class Profiler:
    """Measures single ops of a captured graph on made-up data. See src/run/engine/profile.h."""

    def __init__(self, graph: Graph, library: str, pool: Pool | None = None) -> None: ...

    def profile(self, op: int, runs: int, one_thread: bool) -> dict[str, Any] | None:
        """Fields of a dict; None: the op refuses made-up data."""

class SharedPool:
    """A pool that several engines share. See src/share/scheduler/pool_scheduler.h."""

    def __init__(self, pool: Pool) -> None: ...

    @property
    def held(self) -> int:
        """Bytes that steps hold now."""

    @property
    def held_peak(self) -> int:
        """The most at once."""

    def reset_peak(self) -> None: ...

    def set_start_at_ebb(self, at_ebb: bool) -> None:
        """Whether iterations begin when others in the lane have passed their peak."""

    @property
    def waits(self) -> int: ...

class SharedArranger:
    """Decides lanes, plans and turns of steps that share a pool, as `ebbtide share` does, and keeps the plans it has
    made. A member is (name, graph, plan, policy, weight, priority). See src/share/scheduler/arrange.h."""

    def __init__(self, capacity: int, groups: int, link: float, product: str, share: float, threads: int) -> None: ...

    def arrange(self, members: Sequence[_Member]) -> dict[str, Any]:
        """fits, needed_bytes, round_ns, overlap, start_at_ebb, join_order, and of each job lane, plan (None: its own),
        height_limit, state_bytes, height_bytes."""

    def within(self, member: _Member, room: int) -> dict[str, Any] | None:
        """plan, height_limit, state_bytes and height_bytes of a job that takes at most so much of a lane; None: there
        is no plan for that."""

class EstimateResult:
    def to_json(self) -> str:
        """The text that the command prints with --json."""

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with --json."""

    def text(self, width: int = 100) -> str:
        """The table that the command prints."""

    def __repr__(self) -> str: ...
    def _repr_html_(self) -> str:
        """What a notebook shows: a chart and the table."""

    @property
    def fits(self) -> bool: ...

    def page(self) -> str:
        """An HTML page with memory over time."""

    def snapshot(self) -> bytes:
        """A pickle as torch's memory snapshots are."""

class PlanResult:
    def to_json(self) -> str:
        """The text that the command prints with --json."""

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with --json."""

    def text(self, width: int = 100) -> str:
        """The table that the command prints."""

    def __repr__(self) -> str: ...
    def _repr_html_(self) -> str:
        """What a notebook shows: a chart and the table."""

    @property
    def feasible(self) -> bool: ...

    @property
    def plan(self) -> Plan | None:
        """The Plan; None: there is none within the budget."""

    def page(self) -> str:
        """An HTML page with the timeline."""

    def trace(self) -> str:
        """The timeline, for Perfetto."""

class SimulateResult:
    def to_json(self) -> str:
        """The text that the command prints with --json."""

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with --json."""

    def text(self, width: int = 100) -> str:
        """The table that the command prints."""

    def __repr__(self) -> str: ...
    def _repr_html_(self) -> str:
        """What a notebook shows: a chart and the table."""

    def page(self) -> str:
        """An HTML page with the timeline."""

    def trace(self) -> str:
        """The timeline, for Perfetto."""

class ShareResult:
    def to_json(self) -> str:
        """The text that the command prints with --json."""

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with --json."""

    def text(self, width: int = 100) -> str:
        """The table that the command prints."""

    def __repr__(self) -> str: ...
    def _repr_html_(self) -> str:
        """What a notebook shows: a chart and the table."""

    @property
    def fits(self) -> bool: ...

    def page(self) -> str:
        """An HTML page with memory over time."""

class FitResult:
    def to_json(self) -> str:
        """The text that the command prints with --json."""

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with --json."""

    def text(self, width: int = 100) -> str:
        """The table that the command prints."""

    def __repr__(self) -> str: ...
    def _repr_html_(self) -> str:
        """What a notebook shows: a chart and the table."""

    def page(self) -> str:
        """An HTML page."""

class ReplayResult:
    def to_json(self) -> str:
        """The text that the command prints with --json."""

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with --json."""

    def text(self, width: int = 100) -> str:
        """The table that the command prints."""

    def __repr__(self) -> str: ...
    def _repr_html_(self) -> str:
        """What a notebook shows: a chart and the table."""

    def page(self) -> str:
        """An HTML page."""

class AdviseResult:
    def to_json(self) -> str:
        """The text that the command prints with --json."""

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with --json."""

    def text(self, width: int = 100) -> str:
        """The table that the command prints."""

    def __repr__(self) -> str: ...

    def page(self) -> str:
        """An HTML page."""

class ExplainResult:
    def to_json(self) -> str:
        """The text that the command prints with --json."""

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with --json."""

    def text(self, width: int = 100) -> str:
        """The table that the command prints."""

    def __repr__(self) -> str: ...

    def page(self) -> str:
        """An HTML page."""

class ClusterResult:
    def to_json(self) -> str:
        """The text that the command prints with --json."""

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with --json."""

    def text(self, width: int = 100) -> str:
        """The table that the command prints."""

    def __repr__(self) -> str: ...

    def page(self) -> str:
        """An HTML page with a Gantt chart."""

class PackResult:
    def to_json(self) -> str:
        """The text that the command prints with --json."""

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with --json."""

    def text(self, width: int = 100) -> str:
        """The table that the command prints."""

    def __repr__(self) -> str: ...
    def _repr_html_(self) -> str:
        """What a notebook shows: a chart and the table."""

    def page(self) -> str:
        """An HTML page."""

class InspectResult:
    def to_json(self) -> str:
        """The text that the command prints with --json."""

    def to_dict(self) -> dict[str, Any]:
        """The object that the command prints with --json."""

    def text(self, width: int = 100) -> str:
        """The table that the command prints."""

    def __repr__(self) -> str: ...
    def _repr_html_(self) -> str:
        """What a notebook shows: a chart and the table."""

    def page(self) -> str:
        """An HTML page."""

def inspect(model: _Model, *, gpu: _Gpu | None = None, options: dict[str, Any] = {}) -> InspectResult:
    """What a step computes, saves and holds."""

def estimate(
    model: _Model, *, gpu: _Gpu = "a100-40gb", others: Sequence[Graph] = [], framework: str | None = None,
    zero_grad: str | None = None, iterations: int | None = None, alloc_conf: str | None = None,
    options: dict[str, Any] = {}, progress: _Progress = None, threads: int = 0,
) -> EstimateResult:
    """How much memory a training takes. `others`: captures of the same step at other batches, to tell the largest batch
    where it does not fit."""

def hold_generator() -> None:
    """Until release_generator, which the same thread calls, no step of another draws random numbers. May be nested."""

def release_generator() -> None: ...
def without_scratch_rule(graph: Graph) -> list[int]:
    """The numbers of the ops whose scratch memory no rule of an estimate knows."""

def scratch_by_op(graph: Graph, *, gpu: _Gpu = "a100-40gb") -> list[int | None]:
    """The scratch memory that an estimate counts for each op; None: not counted."""

def fit(
    model: _Model, *, gpus: Sequence[_Gpu] = [], others: Sequence[Graph] = [], with_plan: bool = False,
    slowdown: float | None = None, policy: str | None = None, options: dict[str, Any] = {}, progress: _Progress = None,
    seed: int = 0, threads: int = 0,
) -> FitResult:
    """The largest batch on each GPU."""

def plan(
    model: _Model, *, budget: int | str | None = None, gpu: _Gpu = "a100-40gb", link: _Link = None,
    policy: str = "home", swap: bool = True, swap_state: bool = False, recompute: bool = True, reorder: bool = False,
    compare: bool = False, pareto: bool = False, bound: bool = True, evaluations: int = 0, time_limit: float = 0.0, alignment: int = 0,
    options: dict[str, Any] = {}, progress: _Progress = None, seed: int = 0, threads: int = 0,
) -> PlanResult:
    """Which storages to keep, swap or recompute so that a step fits a budget. That there is no plan is an answer."""

def simulate(
    model: _Model, plan: Plan, *, gpu: _Gpu | None = None, link: _Link = None, options: dict[str, Any] = {},
) -> SimulateResult:
    """Checks a plan op by op, and replays it. PlanError where it is not valid."""

def share(
    models: Sequence[_Model], *, gpu: _Gpu = "a100-40gb", capacity: int | str | None = None, link: _Link = None,
    weights: Sequence[int] = [], priorities: Sequence[int] = [], groups: int = 16, may_plan: bool = True,
    max_batch: bool = False, compare: bool = False, options: dict[str, Any] = {}, progress: _Progress = None,
    seed: int = 0, threads: int = 0,
) -> ShareResult:
    """Whether trainings fit on one GPU together, and how fast they are."""

def replay(
    trace: str, *, allocator: str = "pytorch", alloc_conf: str = "", gpu: _Gpu | None = None,
    capacity: int | str | None = None, device: int = -1, keep_going: bool = False,
) -> ReplayResult:
    """An allocation trace through an allocator model."""

def advise(model: _Model, *, gpu: str = "a100-40gb", options: dict[str, Any] = {}) -> AdviseResult:
    """Which measures make a training fit a GPU, those that cost least time first."""

def explain(file: str, *, device: int = -1, largest: int = 10) -> ExplainResult:
    """Why a training ran out of memory, from a snapshot or a log. Nothing in the file is executed."""

def cluster(
    trace: str, *, nodes: str, policies: Sequence[str] = [], name: str = "", fill: float | None = None, memory_error: float = 0.0,
    time_error: float = 0.0, progress: _Progress = None, seed: int = 0,
) -> ClusterResult:
    """A trace of jobs placed on a cluster's GPUs by each policy. `name`: of a file with several traces."""

def pack(
    instance: str, *, capacity: int | str | None = None, alignment: int = 1, evaluations: int = 2500000,
    time_limit: float = 0.0, progress: _Progress = None, seed: int = 0,
) -> PackResult:
    """Addresses for items whose sizes and lives are known."""
