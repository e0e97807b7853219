"""The allocator's history as allocations with a category, a name and a place: format "ebbtide.timeline"."""

import bisect

from . import frames

CATEGORIES = ["Parameter", "Buffer", "Optstate", "Other", "Gradient", "Activation", "Temp"]  # as in src/report
_ROUNDING = 512  # of torch's allocator
_FRAMES_KEPT = 8
_NAMELESS = {"<module>", "forward", "_call_impl", "_wrapped_call_impl", "wrapper", "inner", "decorate_context", "fn"}


# Memory of torch.distributed that no tensor of Python's holds: the file and function that asked for it, what it is, its
# name, and how many frames may lie within.
_DISTRIBUTED = [
    ("nn/parallel/distributed.py", "_ddp_init_helper", "Gradient", "bucket", 1),
    ("nn/parallel/distributed.py", "_pre_forward", "Gradient", "bucket", 1),
    ("_fully_shard/_fsdp_collectives.py", "foreach_all_gather", "Parameter", "all-gather", 8),
    ("_fully_shard/_fsdp_param.py", "init_all_gather_outputs", "Parameter", "unsharded", 8),
    ("_fully_shard/_fsdp_param.py", "alloc_all_gather_outputs", "Parameter", "unsharded", 8),
    ("_fully_shard/_fsdp_collectives.py", "foreach_reduce", "Gradient", "reduce-scatter", 8),
    ("fsdp/_flat_param.py", "_alloc_padded_unsharded_flat_param", "Parameter", "unsharded", 8),
    ("fsdp/_flat_param.py", "unshard", "Parameter", "unsharded", 8),
    ("fsdp/_runtime_utils.py", "_reduce_grad", "Gradient", "reduce-scatter", 8),
]


def _distributed_owner(frames_):
    for depth, frame in enumerate(frames_[:8]):
        if "distributed" not in frame["filename"]:
            continue
        for file, function, category, name, within in _DISTRIBUTED:
            if depth < within and frame["name"] == function and frame["filename"].endswith(file):
                return category, name
    return None


class _Allocation:
    __slots__ = ("begin", "end", "bytes", "frames", "owner", "number", "category")

    def __init__(self, begin, size, frames_, number):
        self.begin = begin
        self.end = None
        self.bytes = max(_ROUNDING, -(-size // _ROUNDING) * _ROUNDING)
        self.frames = frames_
        self.owner = None
        self.number = number  # how many were made before it
        self.category = None


class History:
    """`counted`: allocations up to the snapshot; `looks` as Owners made them; `spans` as Watch did, both in allocations."""

    def __init__(self, snapshot, device, counted, looks, spans):
        self.trace = snapshot["device_traces"][device]
        self.allocations = []
        self.reserved = []
        self.events = 0
        self.event_of = []  # by allocation of the window: its event
        made = sum(1 for entry in self.trace if entry["action"] == "alloc")
        self.first = max(0, counted - made)  # number of the first allocation in the window
        self.spans = sorted(spans, key=lambda span: span[1])
        self._read(snapshot, device, looks)
        self._categorize()
        self._backwards = [span for span in self.spans if span[0] == "backward"]
        self._backward_begins = [span[1] for span in self._backwards]
        self._texts = {}
        self._stacks = {}
        self._stack_of_frames = {}

    # ---- From the trace

    def _read(self, snapshot, device, looks):
        segments = [s for s in snapshot["segments"] if s.get("device", device) == device]
        changes = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
        held = sum(s["total_size"] for s in segments)
        level = held - sum(changes.get(e["action"], 0) * e["size"] for e in self.trace)
        self.reserved.append([0, max(0, level)])
        looks = sorted(looks, key=lambda look: look[0])
        next_look, number, at = 0, self.first, 0
        open_ = {}
        for entry in self.trace:
            action = entry["action"]
            if action == "alloc":
                while next_look < len(looks) and looks[next_look][0] <= number:
                    self._note_owners(looks[next_look][1], open_)
                    next_look += 1
                allocation = _Allocation(at, entry["size"], entry.get("frames") or (), number)
                open_[entry["addr"]] = allocation
                self.allocations.append(allocation)
                self.event_of.append(at)
                number += 1
                at += 1
            elif action == "free_requested":
                allocation = open_.pop(entry["addr"], None)
                if allocation is None:  # older than the window
                    allocation = _Allocation(0, entry["size"], entry.get("frames") or (), -1)
                    self.allocations.append(allocation)
                allocation.end = at
                at += 1
            elif action in changes:
                level += changes[action] * entry["size"]
                self.reserved.append([at, max(0, level)])
        self.events = at
        for segment in segments:
            address = segment["address"]
            for block in segment["blocks"]:
                start = block.get("address", address)
                address += block["size"]
                if block["state"] == "active_allocated" and start not in open_:
                    allocation = _Allocation(0, block.get("requested_size", block["size"]), block.get("frames") or (), -1)
                    open_[start] = allocation
                    self.allocations.append(allocation)
        for _, found in looks[next_look:]:
            self._note_owners(found, open_)
        for allocation in self.allocations:
            if allocation.end is None:
                allocation.end = self.events

    @staticmethod
    def _note_owners(found, open_):
        for address, owner in found.items():
            allocation = open_.get(address)
            if allocation is not None and allocation.owner is None:
                allocation.owner = owner

    # ---- Categories

    def _event(self, number):
        """Of the allocation with that number, or the end."""
        index = number - self.first
        if index < 0:
            return 0
        return self.event_of[index] if index < len(self.event_of) else self.events

    def _categorize(self):
        phases = [span for span in self.spans if span[0] in ("backward", "update")]
        begins_of_backward = [self._event(span[1]) for span in phases if span[0] == "backward"]
        steps = [self._event(span[1]) for span in self.spans if span[0] == "step"]
        next_phase, next_backward, next_step = 0, 0, 0
        for allocation in self.allocations:
            if allocation.owner is None:
                allocation.owner = _distributed_owner(allocation.frames)
        for allocation in sorted((a for a in self.allocations if a.number >= 0), key=lambda a: a.number):
            while next_phase < len(phases) and phases[next_phase][2] <= allocation.number:
                next_phase += 1
            inside = next_phase < len(phases) and phases[next_phase][1] <= allocation.number
            while next_backward < len(begins_of_backward) and begins_of_backward[next_backward] <= allocation.begin:
                next_backward += 1
            while next_step < len(steps) and steps[next_step] <= allocation.begin:
                next_step += 1
            allocation.category = self._category(
                allocation,
                phases[next_phase] if inside else None,
                begins_of_backward[next_backward] if next_backward < len(begins_of_backward) else self.events - 1,
                steps[next_step + 1] if next_step + 1 < len(steps) else None,
            )
        for allocation in self.allocations:
            if allocation.category is None:
                allocation.category = allocation.owner[0] if allocation.owner else "Other"

    @staticmethod
    def _category(allocation, phase, next_backward, end_of_next_step):
        if allocation.owner:
            return allocation.owner[0]
        if end_of_next_step is not None and allocation.end > end_of_next_step:
            return "Other"  # kept over steps: by a library for its own use, or by the program
        in_module = any(
            frame["name"] == "_call_impl" or frame["filename"].endswith("nn/functional.py") for frame in allocation.frames
        )
        if phase is not None:
            return "Activation" if in_module else "Temp"  # recomputed activations run their module again
        if allocation.end <= next_backward:
            return "Temp"
        return "Activation" if in_module else "Other"

    # ---- To the file

    def _text(self, text):
        return self._texts.setdefault(text, len(self._texts))

    def _name(self, allocation):
        if allocation.owner and allocation.owner[1]:
            name = allocation.owner[1]
            return name + (".grad" if allocation.owner[0] == "Gradient" and name not in ("bucket", "reduce-scatter") else "")
        for frame in allocation.frames:  # torch's own function that the program called, as "conv2d"
            if not frames.is_inner(frame["filename"]):
                return None
            if frame["name"] not in _NAMELESS:
                return frame["name"].lstrip("_")
        return None

    def _stack(self, allocation):
        """The program's own frames, innermost first; for work of backward, the line that called it."""
        key = id(allocation.frames)
        if allocation.frames and key in self._stack_of_frames:
            return self._stack_of_frames[key][0]
        places = [
            frames.place(f["filename"], f["line"], f["name"]) for f in allocation.frames if not frames.is_inner(f["filename"])
        ]
        if not places:
            span = self._backward_at(allocation.number)
            if span is not None and span[3]:
                places = [span[3] + " (backward)"]
        if not places:
            return -1
        stack = tuple(self._text(place) for place in places[:_FRAMES_KEPT])
        index = self._stacks.setdefault(stack, len(self._stacks))
        if allocation.frames:
            self._stack_of_frames[key] = (index, allocation.frames)
        return index

    def _backward_at(self, number):
        index = bisect.bisect_right(self._backward_begins, number) - 1
        return self._backwards[index] if index >= 0 and self._backwards[index][2] > number else None

    def to_json(self):
        rows = []
        for allocation in self.allocations:
            name = self._name(allocation)
            rows.append([
                allocation.begin, allocation.end, allocation.bytes, CATEGORIES.index(allocation.category),
                -1 if name is None else self._text(name), self._stack(allocation),
            ])
        marks = [[self._event(begin), f"step {label}"] for phase, begin, _, label in self.spans
                 if phase == "step" and begin >= self.first]
        return {
            "format": "ebbtide.timeline",
            "version": 1,
            "events": self.events,
            "allocations": rows,
            "reserved": self.reserved,
            "marks": marks,
            "texts": list(self._texts),
            "stacks": [list(stack) for stack in self._stacks],
        }

    # ---- Where the peaks are

    def line_of(self, allocation):
        index = self._stack(allocation)
        return list(self._texts)[list(self._stacks)[index][0]] if index >= 0 else ""

    def reserved_peak(self):
        """The allocation for which the device was last asked for more than ever; None where that is not in the window."""
        most, event = self.reserved[0][1], None
        for at, bytes_ in self.reserved[1:]:
            if bytes_ > most:
                most, event = bytes_, at
        if event is None:
            return None
        return next((a for a in self.allocations if a.number >= 0 and a.begin >= event), None)

    def allocated_peak(self):
        """The allocation with which most was allocated."""
        changes = sorted([(a.begin, 1, i) for i, a in enumerate(self.allocations)] +
                         [(a.end, 0, i) for i, a in enumerate(self.allocations) if a.end < self.events])
        live = most = 0
        peak = None
        for _, begins, index in changes:
            live += self.allocations[index].bytes * (1 if begins else -1)
            if live > most:
                most, peak = live, self.allocations[index]
        return peak

    def step_of(self, allocation):
        """From 1; None where no step was counted."""
        steps = [span for span in self.spans if span[0] == "step"]
        if not steps or allocation.number < 0:
            return None
        return next((int(label) for _, end, _, label in steps if allocation.number < end), int(steps[-1][3]) + 1)
