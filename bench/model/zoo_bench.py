"""Every built-in model at its default input against the PyTorch model it stands for: the ratio of our parameters, forward FLOPs, bytes
saved for backward and peak to those of the captured step. Fails where a ratio is further off than promised.

    build/python bench/model/zoo_bench.py [MODEL ...]"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

from support.zoo_figures import inspect, inspect_capture  # noqa: E402

from ebbtide import torch_models  # noqa: E402

# How far off a figure may be.
PROMISED = {"parameters": 0.0, "forward_flops": 0.005, "saved_bytes": 0.01, "peak_bytes": 0.01}
BATCH = 2


def main(names):
    print(f"batch size {BATCH}, SGD, CPU kernels; built in / captured")
    print(f"{'model':30} {'parameters':>14} {'FLOPs':>9} {'saved':>9} {'peak':>9} {'saved bytes':>15} {'capture':>9}")
    worst, failed = {}, []
    for name in names:
        built_in = inspect(name, batch_size=BATCH)
        captured, seconds = inspect_capture(name, batch_size=BATCH)
        ratios = {figure: built_in[figure] / captured[figure] for figure in PROMISED}
        print(f"{name:30} {built_in['parameters']:14,} {ratios['forward_flops']:9.5f} {ratios['saved_bytes']:9.5f} "
              f"{ratios['peak_bytes']:9.5f} {built_in['saved_bytes']:15,} {seconds:7.1f} s", flush=True)
        for figure, ratio in ratios.items():
            worst[figure] = max(worst.get(figure, 0.0), abs(ratio - 1))
            if abs(ratio - 1) > PROMISED[figure]:
                failed.append(f"{name}: {figure} {built_in[figure]}, captured {captured[figure]}")
    print(f"{len(names)} models; furthest off: " + ", ".join(f"{f} {d:.3%} (of {PROMISED[f]:.1%})" for f, d in worst.items()))
    print("\n".join(failed), end="\n" if failed else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or torch_models.NAMES))
