"""The engine on the phantom GPU over the models of its tests: races, waits, peak and overlap of copies with compute.

    build/python bench/run/phantom_bench.py [MODEL ...]

Numbers mean nothing there, so none are compared; what is: that nothing is touched before its turn. Exits with 1 where it is.
"""

import ctypes
import gc
import json
import pathlib
import sys

import torch
from torch.utils._pytree import tree_map

import ebbtide
from ebbtide import BudgetError

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from _lstm_cells import Cells  # noqa: E402
from _on_phantom import start_there  # noqa: E402
from support import run_models  # noqa: E402  # of the tests

POLICIES = (("home", "70%"), ("home", "50%"), ("vdnn-all", "100%"), ("checkpoint-sqrt", "100%"))


def lstm_cells():
    tokens = torch.randint(0, 200, (8, 20))
    return Cells(), lambda scores, target: torch.nn.functional.cross_entropy(scores, target.flatten()), (tokens, tokens.roll(1, 1))


def overlap(trace):
    """Microseconds of copies that ran while compute did, and of all copies."""
    spans = {}
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in trace if e["ph"] == "M" and e["name"] == "thread_name"}
    for event in trace:
        if event["ph"] == "X":
            spans.setdefault(names.get((event["pid"], event["tid"]), ""), []).append((event["ts"], event["ts"] + event["dur"]))
    compute = sorted(spans.pop("compute", []))
    both = total = 0
    for name, copies in spans.items():
        if "copy" not in name and "host" not in name and "device" not in name:
            continue
        for begin, end in copies:
            total += end - begin
            both += sum(max(0, min(end, b) - max(begin, a)) for a, b in compute)
    return both, total


def run(name, policy, budget):
    phantom = ctypes.CDLL(None)
    gc.collect()
    torch.cuda.empty_cache()
    torch.manual_seed(0)
    model, loss_fn, batch = lstm_cells() if name == "lstm" else run_models.ALL[name]()
    model, batch = model.cuda(), tree_map(lambda t: t.cuda(), batch)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    try:
        step = ebbtide.step(model, loss_fn, optimizer, batch, budget=budget, policy=policy, device="cuda")
    except BudgetError as error:
        step = ebbtide.step(model, loss_fn, optimizer, batch, budget=error.minimum_budget_bytes, device="cuda")
    call = (lambda: step(**batch)) if isinstance(batch, dict) else (lambda: step(*batch))
    call()
    torch.cuda.reset_peak_memory_stats()
    undeclared, waits = phantom.ebbtide_phantom_undeclared_launches(), step._pool.waits
    call()
    report = step.report().to_dict()
    both, total = overlap(json.loads(step._current.engine.trace())["traceEvents"])
    fields = {
        "model": name, "policy": report["policy"], "budget": budget, "budget_bytes": report["budget_bytes"],
        "plain_peak_bytes": report["plain_peak_bytes"], "peak_bytes": report["peak_bytes"], "copied_out_bytes": report["copied_out_bytes"],
        "waits": step._pool.waits - waits, "races": phantom.ebbtide_phantom_race_count(),
        "undeclared": phantom.ebbtide_phantom_undeclared_launches() - undeclared,
        "outside_bytes": torch.cuda.max_memory_reserved(), "overlap": round(both / total, 3) if total else None,
    }
    step.close()
    return fields


def main():
    start_there(kernel_us=100)
    wrong = 0
    for name in sys.argv[1:] or run_models.ALL:
        for policy, budget in POLICIES:
            try:
                fields = run(name, policy, budget)
            except Exception as error:  # one row; the others go on
                fields = {"model": name, "policy": policy, "budget": budget, "error": f"{type(error).__name__}: {error}"}
            wrong += bool(fields.get("races") or fields.get("undeclared") or "error" in fields or fields["peak_bytes"] > fields["budget_bytes"])
            print(json.dumps(fields), flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
