"""Counts optimizer steps, follows the peak, notes requests that failed, and writes it all at the end of the process."""

import json
import os
import pickle
import sys
import threading
import weakref

from . import compilers, ends, frames, timeline, values
from .by_hand import ByHand
from .clock import Clock
from .graphs import Graphs
from .owners import Owners
from .ranks import Ranks

MOST_EVENTS = 400_000  # of the allocator's history; the part with the peak is kept
MOST_OOMS = 20
OWNERS_EVERY_STEP = 20  # so many first steps are looked at closely; later ones only where the peak grew


class StoppedAfterSteps(SystemExit):
    """--stop-after-steps: ends the program as sys.exit(0) does, with its cleanup."""


class Watch:
    def __init__(self, torch, folder, stop_after, snapshot, check, assume):
        self.torch = torch
        self.folder = folder
        self.stop_after = stop_after
        self.snapshot = snapshot
        self.check = check
        self.owners = Owners(torch)
        self.values = values.Followed(assume)
        self.ranks = Ranks(torch)
        self.graphs = Graphs(torch, self._replayed_step)
        self.reset()

    def reset(self):
        """The state of a process that has not used the device yet, also of a child by fork."""
        self.pid = os.getpid()
        self.finished = self.writing = False
        self.recording = False
        self.round = []  # weak references to the optimizers that have updated in this step
        self.updates = weakref.WeakKeyDictionary()  # by optimizer: how many so far
        self.has_optimizer = False  # one has begun an update, and may call backward within it
        self.steps = 0
        self.device, self.device_is_settled = 0, False  # the one whose memory is told over time
        self.peaks = {}  # by device: the most that was reserved, allocated
        self.peak_reserved = self.peak_allocated = 0
        self.peak_step = None
        self.peak_at = 0  # allocations before the end of the step in which the peak last grew
        self.saved = None  # a snapshot taken while the peak was still in the history, and the peak it holds
        self.counted_before_resets = 0
        self.spans = []  # (phase, first allocation, allocation behind the last, line)
        self.step_begins = None
        self.ooms = []
        self.notes = []
        self.stopped = False
        self.owners.reset()
        self.clock = Clock()
        self.by_hand = ByHand(self.owners)

    # ---- Begin

    def attach(self, late=False):
        torch = self.torch
        torch.cuda._lazy_call(self._guarded(self._on_cuda))
        from torch.optim import optimizer

        optimizer.register_optimizer_step_pre_hook(self._before_step)
        optimizer.register_optimizer_step_post_hook(self._after_step)
        self._stand_before(torch._C, "_cuda_resetPeakMemoryStats", self._note_peak)
        self._stand_before(torch._C, "_cuda_resetAccumulatedMemoryStats", self._note_counts)
        self._span_around(torch.autograd, "_engine_run_backward", "backward")
        self.owners.attach(late)
        self.ranks.attach()
        self.graphs.attach()

    def _on_cuda(self):
        """The device has come up in this process."""
        torch = self.torch
        torch._C._cuda_attach_out_of_memory_observer(self._guarded(self._on_oom))
        try:
            torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python", max_entries=MOST_EVENTS)
            self.recording = True
        except Exception as error:
            self.notes.append(f"memory over time was not recorded: {frames.one_line(error)}")
        ends.call_on_signals(self.finish)
        compilers.leave_at_the_end()
        ends.call_after_cells(self._guarded(self._keep))
        self.values.attach()
        self.ranks.start(self.finish)
        self.clock.start(self.notes)
        if self.check == "race":
            self._declare_accesses()

    def _declare_accesses(self):
        """What each op reads and writes is told to the race checker by an observer of the dispatcher."""
        try:
            values.observer().start()
        except Exception as error:
            self.notes.append(f"what ops read and write was not declared: {frames.one_line(error)}")

    def _guarded(self, function):
        """Our own faults are ours: a note in the report, never an exception in the program."""

        def guarded(*arguments):
            try:
                return function(*arguments)
            except Exception as error:
                self._fault(error)

        return guarded

    def _fault(self, error):
        note = f"part of the report is missing: {type(error).__name__}: {frames.one_line(error)}"
        if note not in self.notes and len(self.notes) < 20:
            self.notes.append(note)

    def _stand_before(self, owner, name, function):
        original = getattr(owner, name, None)
        if original is None:
            return
        guarded = self._guarded(function)

        def wrapper(*arguments):
            guarded()
            return original(*arguments)

        setattr(owner, name, wrapper)

    def _span_around(self, owner, name, phase):
        original = getattr(owner, name, None)
        if original is None:
            return
        count = self._guarded(self._count)
        begins, ended = self._guarded(self._backward_begins), self._guarded(self._backward_has_ended)

        def wrapper(*arguments, **keywords):
            begin = count()
            line = frames.caller(sys._getframe(1)) if begin is not None else None
            if begin is not None:
                begins(line, arguments)
                if self.stop_after and self.steps >= self.stop_after:
                    self._stop()
            try:
                with self.owners.backward():
                    return original(*arguments, **keywords)
            finally:
                if begin is not None:
                    self.spans.append((phase, begin, count(), line))
                    ended(line)

        wrapper._torchdynamo_disable = True
        setattr(owner, name, wrapper)

    # ---- Events

    def _stats(self):
        if not self.torch.cuda.is_initialized():
            return None
        if not self.device_is_settled:
            self.device = self.torch._C._cuda_getDevice()
        stats = self.torch._C._cuda_memoryStats(self.device)
        if not self.device_is_settled and stats.get("allocation", {}).get("all", {}).get("allocated"):
            self.device_is_settled = True
        return stats

    def _note_peaks(self):
        """Of every device that the process has used."""
        c = self.torch._C
        for device in range(c._cuda_getDeviceCount()):
            if device != self.device and not c._cuda_hasPrimaryContext(device):
                continue
            stats = c._cuda_memoryStats(device)
            if "reserved_bytes" not in stats:
                continue
            reserved, allocated = self.peaks.get(device, (0, 0))
            self.peaks[device] = (
                max(reserved, stats["reserved_bytes"]["all"]["peak"]),
                max(allocated, stats["allocated_bytes"]["all"]["peak"]),
            )

    def _count(self, stats=None):
        """Allocations so far, which is how moments are told apart. None before the device came up."""
        stats = stats or self._stats()
        if not stats or "allocation" not in stats:
            return None
        return self.counted_before_resets + stats["allocation"]["all"]["allocated"]

    def _note_counts(self):
        self.counted_before_resets = self._count() or 0

    def _note_peak(self, stats=None):
        """True: it grew since the last look."""
        stats = stats or self._stats()
        if not stats or "reserved_bytes" not in stats:
            return False
        self._note_peaks()
        reserved = stats["reserved_bytes"]["all"]["peak"]
        self.peak_allocated = max(self.peak_allocated, stats["allocated_bytes"]["all"]["peak"])
        if reserved <= self.peak_reserved:
            return False
        self.peak_reserved = reserved
        self.peak_step = self.steps + 1
        self.peak_at = self._count(stats) or 0
        return True

    def _before_step(self, optimizer, *_):
        self.has_optimizer = True
        try:
            self.step_begins = self._count()
        except Exception as error:
            self._fault(error)

    def _after_step(self, optimizer, *_):
        try:
            if self.graphs.is_captured():
                return
            self._step_has_ended(optimizer)
        except Exception as error:
            self._fault(error)
        if self.stop_after and self.steps >= self.stop_after:
            self._stop()

    _before_step._torchdynamo_disable = True  # type: ignore[attr-defined]
    _after_step._torchdynamo_disable = True  # type: ignore[attr-defined]

    def _step_has_ended(self, optimizer):
        stats = self._stats()
        self.ranks.note()
        grew = self._note_peak(stats)
        if not self.round and self.steps:  # what looked like steps by hand were none, or are another training's
            self.steps = 0
            self.spans = [span for span in self.spans if span[0] != "step"]
            self.clock.no_step_yet()
        if self._is_next_round(optimizer):
            self.steps += 1
            self.clock.step_has_ended()
        now = self._count(stats)
        if now is None:
            return
        if self.step_begins is not None:
            self.spans.append(("update", self.step_begins, now, None))
        self.step_begins = None
        self.spans.append(("step", now, now, str(self.steps)))
        if grew or self.steps <= OWNERS_EVERY_STEP:
            self.owners.look(now, optimizer)
        self._keep_peak(now)

    def _replayed_step(self):
        try:
            self._note_peak()
            self.steps += 1
            self.clock.step_has_ended()
            now = self._count()
            self.spans.append(("step", now, now, str(self.steps)))
        except Exception as error:
            self._fault(error)
        if self.stop_after and self.steps >= self.stop_after:
            self._stop()

    def _is_next_round(self, optimizer):
        """Several optimizers that each update once are one step, as in adversarial training. One that has updated and is gone belongs to a
        training that has ended; so do those that have updated before, where one updates for the first time."""
        present = [reference() for reference in self.round]
        before = self.updates.get(optimizer, 0)
        self.updates[optimizer] = before + 1
        joins = present and not any(one is None or one is optimizer for one in present)
        if joins and (before or any(self.updates[one] == 1 for one in present)):
            self.round.append(weakref.ref(optimizer))
            return False
        self.round = [weakref.ref(optimizer)]
        return True

    # ---- Steps of programs without an optimizer

    def _backward_begins(self, line, arguments):
        if self.has_optimizer or self.torch._C._len_torch_dispatch_stack() > 0:  # what is traced is not run
            return
        if self.by_hand.is_next_step(line):
            self._step_by_hand()
        self.by_hand.look_for_parameters(arguments[0] if arguments and isinstance(arguments[0], (tuple, list)) else ())

    def _backward_has_ended(self, line):
        if not self.has_optimizer and self.torch._C._len_torch_dispatch_stack() == 0:
            self.by_hand.backward_has_ended(line, self._count())

    def _step_by_hand(self):
        """The step ended somewhere between two passes of backward; told by the allocations behind the first."""
        self._note_peak()
        self.steps += 1
        self.clock.step_has_ended()
        now = self.by_hand.ended_at
        self.spans.append(("step", now, now, str(self.steps)))
        if self.steps <= OWNERS_EVERY_STEP:
            self.owners.look(self._count(), None)
        self._keep_peak(now)

    def _keep_peak(self, now):
        """The history forgets its beginning. A peak that it is about to forget is saved, once."""
        if not self.recording or now - self.peak_at < MOST_EVENTS // 4:
            return
        if self.saved is None or self.saved[1] < self.peak_reserved:
            self.saved = (self.torch.cuda.memory._snapshot(), self.peak_reserved, now)

    def _on_oom(self, device, requested, total, free):
        stats = self._stats()
        self._note_peak(stats)
        if len(self.ooms) < MOST_OOMS:
            self.ooms.append({
                "step": self.steps + 1,
                "requested_bytes": requested,
                "allocated_bytes": stats["allocated_bytes"]["all"]["current"],
                "reserved_bytes": stats["reserved_bytes"]["all"]["current"],
                "free_bytes": free,
                "capacity_bytes": total,
                "stack": frames.present(),
            })
        self.owners.look(self._count(stats), None)

    def _stop(self):
        self.stopped = True
        if threading.current_thread() is threading.main_thread() and self.steps < self.stop_after + 3:
            raise StoppedAfterSteps(0)
        os._exit(0)  # a thread cannot end the program otherwise, nor one that catches everything

    # ---- End

    def finish(self):
        """False: it is being done, by somebody that a signal has interrupted."""
        if self.writing:
            return False
        if self.finished or self.pid != os.getpid():
            return True
        with ends.no_interrupts():
            self.finished = self.writing = True
            try:
                if self.torch.cuda.is_initialized() and not self.torch.cuda._is_in_bad_fork():
                    self._write()
            except Exception as error:
                print(f"ebbtide: the report is not complete: {type(error).__name__}: {frames.one_line(error)}", file=sys.stderr)
            self.writing = False
        self.ranks.stop()
        return True

    def _keep(self):
        """What is known so far; written anew at the end, if there is one."""
        if not self.finished and self.pid == os.getpid():
            notes = list(self.notes)
            self._write()
            self.notes = notes

    def _write(self):
        stats = self._stats()
        if self.finished and not self.has_optimizer and self.by_hand.ended_at is not None:  # the last pass of backward is part of a step too
            self._step_by_hand()
        self._note_peak(stats)
        self.ranks.note()
        result = {
            "format": "ebbtide.torch",
            "version": 1,
            "torch": str(self.torch.__version__),
            "peak_reserved_bytes": self.peak_reserved,
            "peak_allocated_bytes": self.peak_allocated,
            "rank": self.ranks.rank,
            "world_size": self.ranks.world_size,
            "device": self.device,
            "devices": [
                {"index": device, "peak_reserved_bytes": reserved, "peak_allocated_bytes": allocated}
                for device, (reserved, allocated) in sorted(self.peaks.items())
                if reserved
            ],
            "steps": self.steps,
            "peak_step": self.peak_step if self.steps else None,
            "ooms": stats.get("num_ooms", len(self.ooms)),
            "retries": stats.get("num_alloc_retries", 0),
            "stopped": self.stopped,
            "step_time_ns": self.clock.step_time(),
            "guessed_launches": self.clock.guessed(),
            "oom_list": self.ooms,
        }
        try:
            if self.recording:
                result.update(self._write_history(stats))
        except Exception as error:
            self._fault(error)
        result.update(self.values.report())
        result["notes"] = self.notes + self.values.notes + self.values.left_out + self.ranks.notes
        self._write_file(f"{self.pid}.torch.json", json.dumps(result).encode())

    def _write_history(self, stats):
        self.owners.look(self._count(stats), None)
        if self.saved is not None and self.saved[1] >= self.peak_reserved:
            snapshot, _, counted = self.saved
            self.notes.append(f"memory over time ends at allocation {counted}, after the peak; the run went on to "
                              f"{self._count(stats)}")
        else:
            snapshot, counted = self.torch.cuda.memory._snapshot(), self._count()
        if self.snapshot:
            self._write_file(f"{self.pid}.pickle", pickle.dumps(snapshot))
        history = timeline.History(snapshot, self.device, counted, self.owners.looks, self.spans)
        self._write_file(f"{self.pid}.timeline.json", json.dumps(history.to_json(), separators=(",", ":")).encode())
        places = {}
        for name, peak in (("peak", history.reserved_peak()), ("peak_allocated", history.allocated_peak())):
            if peak is not None:
                places[name + "_line"] = history.line_of(peak)
                places[name + "_step"] = history.step_of(peak)
        return places

    def _write_file(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path + ".new", "wb") as file:
            file.write(content)
        os.replace(path + ".new", path)
