"""Whether what a program derives from host data is true on the phantom: every operator of PyTorch's own list of samples (op_db), on the same
integers, bools and floats on the CPU and on the device.

A result that the device has must equal the CPU's: exactly for integers and bools, nearly for floats; or be told as assumed. One that is neither is a fault.

  values.py [NAME ...]    some operators; all if none is named
"""

import argparse
import gc
import json
import os
import pathlib
import subprocess
import sys

import programs
from programs import layered_environment

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = ("int64", "bool", "float32", "uint8", "int32")
# Their results are not defined by their arguments.
UNDEFINED = ("empty", "resize", "new_empty", "rand", "normal", "uniform", "bernoulli", "multinomial", "dropout", "exponential", "cauchy", "geometric",
             "log_normal", "rrelu", "svd", "eig", "qr", "lu", "lstsq", "pca_lowrank", "ldl", "geqrf", "ormqr", "householder", "null", "item")
# CUDA has no such kernel, takes their arguments from the host, or would see what lies beside a view, which does not come along.
NOT_OF_CUDA = ("sparse.mm.reduce", "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu", "tensor_split", "as_strided.partial_views")


def moved(value, device):
    import torch

    if isinstance(value, torch.Tensor):
        # What lies behind or between elements goes along, and views of one tensor stay views of it.
        return value.to(device)
    if isinstance(value, (list, tuple)):
        return type(value)(moved(each, device) for each in value) if not hasattr(value, "_fields") else value
    if isinstance(value, dict):
        return {key: moved(each, device) for key, each in value.items()}
    if isinstance(value, torch.device):
        return torch.device(device)
    return value


def tensors(value):
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors(each)


def assumed(observer):
    return sum(entry["count"] for entry in observer.values.report()["assumptions"])


def sweep(names):
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    torch.cuda.init()
    watch = next(thing for thing in gc.get_objects() if type(thing).__name__ == "Watch" and hasattr(thing, "by_hand"))
    counts = {"equal": 0, "assumed": 0, "refused by one": 0}
    different = []
    for op in op_db:
        label = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if (names and op.name not in names) or label in NOT_OF_CUDA or any(part in op.name for part in UNDEFINED):
            continue
        for name in DTYPES:
            dtype = getattr(torch, name)
            if dtype not in op.supported_dtypes("cuda") or dtype not in op.supported_dtypes("cpu"):
                continue
            torch.manual_seed(0)
            try:
                samples = list(op.sample_inputs("cpu", dtype))[:12]
            except Exception:
                continue
            for number, sample in enumerate(samples):
                place = f"{label} {name} sample {number}"
                print(place, flush=True)  # where it is, should it end here
                try:
                    there = [moved(value, "cuda") for value in (sample.input, sample.args, sample.kwargs)]
                    expected = op(sample.input, *sample.args, **sample.kwargs)
                except Exception:
                    counts["refused by one"] += 1
                    continue
                before = assumed(watch)
                try:
                    found = op(there[0], *there[1], **there[2])
                    pairs = list(zip(tensors(expected), tensors(found)))
                    here = [each.detach().cpu() for _, each in pairs]
                except Exception as error:
                    if assumed(watch) == before:
                        different.append(f"{place}: raises {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
                    else:
                        counts["assumed"] += 1
                    continue
                if assumed(watch) > before:
                    counts["assumed"] += 1
                    continue
                try:
                    for (want, _), got in zip(pairs, here):
                        torch.testing.assert_close(got, want.detach().cpu(), equal_nan=True, check_stride=False, rtol=1e-3, atol=1e-4)
                    counts["equal"] += 1
                except AssertionError as error:
                    different.append(f"{place}: {' '.join(str(error).split())[:150]}")
    print("RESULT" + json.dumps([counts, different]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--environment", type=pathlib.Path, help="as of programs.py")
    options = parser.parse_args()
    names = options.names
    if os.environ.get("EBBTIDE_DRYRUN"):
        sweep(names)
        return 0
    python = options.environment / "bin" / "python" if options.environment else layered_environment("programs", programs.PACKAGES)
    words = [ROOT / "build" / "ebbtide", "dryrun", "--", python, "-W", "ignore", __file__, *names]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT")), None)
    if line is None:
        print(f"{done.stdout[-2000:]}\nthe sweep ended early, exit code {done.returncode}")
        return 1
    counts, different = json.loads(line[6:])
    for place in different:
        print(place)
    print(f"{sum(counts.values()) + len(different)} calls: {counts['equal']} equal, {counts['assumed']} assumed aloud, "
          f"{counts['refused by one']} not taken by the CPU, {len(different)} different in silence")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
