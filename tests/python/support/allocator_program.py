"""Random allocation traces through torch's own allocator, on the phantom GPU: each as a CSV of `ebbtide replay` and what
torch made of it. Run by allocator_traces.py, which says how; the options of the allocator are those of the process."""

import ctypes
import json
import pathlib
import random
import sys

import torch

MIB = 1 << 20


class Gates:
    """Work that is not finished until the host waits for it (allocator_gates.c)."""

    def __init__(self):
        self.library = ctypes.CDLL(None)

    def close(self, stream):
        assert self.library.gate_close(ctypes.c_void_p(stream.cuda_stream)) == 0


def sizes_of(rng, capacity):
    """Sizes that a trace draws from: a few that come again, of a mix of its own."""
    kinds = [lambda: rng.randint(1, MIB), lambda: rng.randint(MIB, 10 * MIB), lambda: rng.randint(10 * MIB, 60 * MIB),
             lambda: rng.randint(1, 64) * 512, lambda: rng.randint(1, 40) * MIB,
             lambda: rng.randint(capacity // 8, capacity // 2)]
    weights = [rng.random() ** 2 for _ in kinds]
    draw = lambda: rng.choices(kinds, weights)[0]()  # noqa: E731
    palette = [draw() for _ in range(rng.randint(2, 12))]
    fresh = rng.choice([0.05, 0.3, 0.9])
    return lambda: draw() if rng.random() < fresh else rng.choice(palette)


def run_trace(seed, capacity, streams, gates):
    """The rows of a trace, and what torch counted."""
    rng = random.Random(seed)
    size = sizes_of(rng, capacity)
    used = streams[: rng.choice([1, 1, 2, 3, 4])]
    weights = {
        "alloc": 10, "free": rng.choice([4, 7, 9, 11]), "record": rng.choice([0, 1, 3]) if len(used) > 1 else 0,
        "work": rng.choice([0, 1, 2]), "sync": rng.choice([0.1, 0.5]), "empty": rng.choice([0, 0.1, 0.5]),
    }
    target = rng.randint(4, 120)  # blocks that live at a time
    live, rows, ooms = {}, [], 0
    for number in range(rng.randint(20, 260)):
        (action,) = rng.choices(list(weights), weights.values())
        if action == "alloc" and len(live) > target:
            action = "free"
        if action in ("free", "record") and not live:
            action = "alloc"
        if action == "alloc":
            bytes_, index = size(), rng.randrange(len(used))
            rows.append(f"alloc,{number},{bytes_},{index}")
            try:
                with torch.cuda.stream(used[index]):
                    live[number] = torch.empty(bytes_, dtype=torch.uint8, device="cuda")
            except torch.OutOfMemoryError:
                ooms += 1
        elif action == "free":
            name = rng.choice(list(live))
            rows.append(f"free,{name},,")
            del live[name]
        elif action == "record":
            name, index = rng.choice(list(live)), rng.randrange(len(used))
            rows.append(f"record_stream,{name},,{index}")
            live[name].record_stream(used[index])
        elif action == "work":
            index = rng.randrange(len(used))
            rows.append(f"work,,,{index}")
            gates.close(used[index])
        elif action == "sync":
            rows.append("sync,,,")
            torch.cuda.synchronize()
        else:
            rows.append("empty_cache,,,")
            torch.cuda.empty_cache()
    stats = torch.cuda.memory_stats()
    counted = {
        "ooms": ooms,
        "peak_reserved_bytes": stats["reserved_bytes.all.peak"],
        "peak_allocated_bytes": stats["allocated_bytes.all.peak"],
        "segments": stats["num_device_alloc"],
        "segments_given_back": stats["num_device_free"],
        "final_reserved_bytes": stats["reserved_bytes.all.current"],
        "final_allocated_bytes": stats["allocated_bytes.all.current"],
    }
    return rows, counted


def fresh():
    """No memory, counters at zero."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.reset_accumulated_memory_stats()


def main(folder, first_seed, count):
    folder = pathlib.Path(folder)
    torch.empty(1, device="cuda")
    streams = [torch.cuda.default_stream(), *(torch.cuda.Stream() for _ in range(3))]
    gates = Gates()
    capacity = torch.cuda.mem_get_info()[0]
    results = []
    for seed in range(first_seed, first_seed + count):
        fresh()
        rows, counted = run_trace(seed, capacity, streams, gates)
        (folder / f"{seed}.csv").write_text("\n".join(["action,id,bytes,stream", *rows, ""]))
        results.append({"seed": seed, **counted})
    (folder / "torch.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
