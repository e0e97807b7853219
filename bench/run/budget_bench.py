"""`with ebbtide.budget(...)` on the phantom GPU over built-in models: the smallest tenth of what plain training reserves that it holds.

    build/python bench/run/budget_bench.py [MODEL:BATCH ...]

Times are the phantom's: every kernel takes 300 us, copies what the GPU's link takes. `copies` is what they would take beside
nothing else, `slowdown` what a step takes, both in steps without a limit: what they hide of each other shows in the difference. Exits with 1
where more than the limit is reserved, or anything is touched before its turn.
"""

import ctypes
import gc
import json
import pathlib
import sys

import torch

import ebbtide
from ebbtide import phantom_observer, torch_models

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from _on_phantom import start_there  # noqa: E402
from support.replay import loss_of  # noqa: E402  # of the tests

start_there(kernel_us=300)
MODELS = ("resnet50:32", "vgg16:16", "densenet121:16", "inception_v3:16", "unet:4", "bert-base:8", "gpt2:4")
STEPS = 4
phantom = ctypes.CDLL(None)
phantom.ebbtide_phantom_now.restype = phantom.ebbtide_phantom_race_count.restype = ctypes.c_int64


def copy_ns(size=1 << 28):
    """For one byte."""
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    begin = phantom.ebbtide_phantom_now()
    host.cuda(non_blocking=True)
    torch.cuda.synchronize()
    return (phantom.ebbtide_phantom_now() - begin) / size


def train(name, batch_size, limit):
    """The report, by how much torch's memory has grown, and what the last step took."""
    gc.collect()
    torch.manual_seed(0)
    model, loss_fn, optimizer, batch = torch_models.build(name, batch_size, device="cuda")
    with ebbtide.budget(limit, device="cuda") as budget:
        reserved = torch.cuda.memory_reserved()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(STEPS):
            begin = phantom.ebbtide_phantom_now()
            optimizer.zero_grad()
            loss_of(model, loss_fn, batch).backward()
            optimizer.step()
            torch.cuda.synchronize()
        return budget.report(), torch.cuda.max_memory_reserved() - reserved, phantom.ebbtide_phantom_now() - begin


def main():
    phantom_observer.start()
    wrong, per_byte = 0, copy_ns()
    for text in sys.argv[1:] or MODELS:
        name, _, batch_size = text.partition(":")
        job = name, int(batch_size or 8)
        plain, _, plain_ns = train(*job, "1TiB")
        fields = {"model": name, "batch": job[1], "plain_bytes": plain["peak_bytes"], "smallest": None}
        for tenths in range(9, 0, -1):
            try:
                report, grown, took = train(*job, plain["peak_bytes"] * tenths // 10)
            except torch.OutOfMemoryError:
                break
            wrong += grown > report["budget_bytes"]
            copied = (report["copied_out_bytes"] + report["copied_in_bytes"]) // STEPS
            fields |= {"smallest": f"{tenths}0%", "reserved_bytes": grown, "copied_bytes": copied, "copies": round(copied * per_byte / plain_ns, 2),
                       "slowdown": round(took / plain_ns, 2)}
        fields["races"] = phantom.ebbtide_phantom_race_count()
        wrong += fields["races"]
        print(json.dumps(fields), flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
