"""One call of torch.compile(backend="ebbtide"): its options, and the memory that its graphs share."""

import threading
import warnings
import weakref
from collections import OrderedDict

from ..arguments import bandwidth, budget_text, bytes_of, shown_bytes
from ..errors import BudgetError
from ..inductor import check_kernels
from ..step.prepared import make_engine, make_pool
from ..step.step import NO_LIMIT

MOST_PLANS = 8  # of different shapes, kept at a time
_OPTIONS = {"budget": None, "policy": "home", "reorder": False, "link": None, "measure": True, "pieces": 1, "kernels": "eager"}


class Job:
    """One call of torch.compile: a budget, and the graphs that share it."""

    def __init__(self, options):
        self.options = options  # kept, so that its id stays its own
        chosen = dict(_OPTIONS)
        for name, value in (options or {}).items():
            if name not in _OPTIONS:
                raise ValueError(f"option {name!r}: expected one of {', '.join(_OPTIONS)}")
            chosen[name] = value
        self.policy, self.measure, self.most = chosen["policy"], chosen["measure"], chosen["pieces"]
        if isinstance(self.most, bool) or not isinstance(self.most, int) or self.most < 1:
            raise ValueError(f"pieces {self.most!r}: expected a number from 1 on")
        self.reorder = chosen["reorder"]
        if not isinstance(self.reorder, bool):
            raise ValueError(f"reorder {self.reorder!r}: expected True or False")
        self.kernels = chosen["kernels"]
        check_kernels(self.kernels)
        self.link = bandwidth(chosen["link"])
        budget = chosen["budget"]
        self.text = None if budget is None else budget_text(budget)
        self.is_share = self.text is not None and self.text.endswith("%")
        self.shared = self.text is not None and not self.is_share
        self.pieces = []
        self.largest = 0  # budget of a graph that trains
        self.plain = 0  # the most that one of its graphs takes without a plan
        self._slots = []  # of a budget in bytes: as many as there are pieces
        self._lock = threading.Lock()

    def share(self, trains, device):
        """What one graph gets. Percentages are of trainings: a graph without a backward pass gets as much as they do."""
        if self.shared:
            return bytes_of(self.text) // self.most
        return (self.text or NO_LIMIT[device[:4]]) if trains else self.largest or "100%"

    def is_split(self, piece):
        """Whether the model is more than this graph."""
        return piece.broken is not None or len(self.pieces) > 1

    def allow(self, prepared):
        """A graph that cannot keep to its share of itself runs without a plan where another takes more memory, and is refused where it is the
        largest. That is known when it is called for the second time, as all of the model has run once by then."""
        self.plain = max(self.plain, prepared.planned.said["plain_peak_bytes"])
        if prepared.unplanned is None or prepared.allowed:
            return
        taken = prepared.planned.said["plain_peak_bytes"]
        if taken < self.plain:
            prepared.allowed = True
            warnings.warn(f"{prepared.piece.name} ({shown_bytes(taken)} of memory, the largest graph has {shown_bytes(self.plain)}) runs without a plan: "
                          f"{prepared.unplanned}", stacklevel=3)
        elif prepared.called:
            raise prepared.unplanned
        prepared.called = True

    def take(self, prepared, lease):
        """A place to run in, which nobody else uses while the lease is in force."""
        with self._lock:
            if not self.shared:
                slot = next((s for s in prepared.slots if s.user is None), None)
                if slot is None:
                    slot = Slot(make_pool(prepared.planned.said["budget_bytes"], prepared.joint.device, self.link))
                    prepared.slots.append(slot)
            else:
                device = prepared.joint.device
                slot = next((s for s in self._slots if s.user is None and s.pool.device == device), None)
                if slot is None and len(self._slots) < self.most:
                    slot = Slot(make_pool(self.share(True, device), device, self.link))
                    self._slots.append(slot)
                if slot is None:
                    raise BudgetError(self._refusal(prepared.piece), None)
            slot.let_to(lease)
            return slot

    def _refusal(self, piece):
        busy = [user for slot in self._slots if (user := slot.user) is not None]
        begun = f"the budget of {self.text} is for {'one graph' if self.most == 1 else f'{self.most} graphs'} between forward and backward"
        share = f"options={{'pieces': {self.most + 1}}} gives each an equal share"
        if piece in busy:
            return f"{begun}, and the model is called again before the backward pass of an earlier call has run; {share}"
        why = next((p.broken for p in [*busy, piece] if p.broken), None)
        return (f"{begun}, and there is one more: " + (why or "DistributedDataParallel splits the model by buckets; compile the model "
                "before it is wrapped, or set torch._dynamo.config.optimize_ddp = False") + f"; {share}")


class Slot:
    """A pool, and the engines that run in it, one at a time."""

    def __init__(self, pool):
        self.pool = pool
        self.engines = OrderedDict()  # Prepared -> engine
        self._lease = lambda: None  # the last one, while somebody refers to it

    @property
    def user(self):
        """The piece that runs in it; None: none does."""
        lease = self._lease()
        return lease.piece if lease is not None and lease.in_force else None

    def let_to(self, lease):
        # What a lease that nobody refers to any more has begun may still be copying.
        for engine in self.engines.values():
            engine.abandon()
        self._lease = weakref.ref(lease)

    def engine(self, prepared):
        if prepared not in self.engines:
            self.engines[prepared] = make_engine(prepared.planned, prepared.measured, self.pool)
        self.engines.move_to_end(prepared)
        while len(self.engines) > MOST_PLANS:
            self.engines.popitem(last=False)
        return self.engines[prepared]
