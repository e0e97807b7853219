"""ONNX exports of ten built-in models, and a few by the older exporter, against the captured steps of the same PyTorch
PyTorch models: the ratio of parameters, forward FLOPs, saved bytes and peak. Fails where a ratio is further off than promised.

    build/python bench/model/onnx_bench.py [MODEL ...]"""

import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

from support.onnx_exports import export  # noqa: E402
from support.zoo_figures import inspect, inspect_capture  # noqa: E402

MODELS = (
    "alexnet", "vgg16", "resnet18", "resnet50", "inception_v3", "densenet121", "mobilenet_v2", "convnext_tiny", "bert-base", "gpt2",
)
# By the older exporter, at the opset it is asked for: before LayerNormalization (17) and HardSwish (14).
TORCHSCRIPT = {"resnet18": 11, "mobilenet_v3_small": 11, "convnext_tiny": 11, "bert-base": 14}
# How far off a figure may be. The peak is shown: files do not say what ran in place.
PROMISED = {"parameters": 0.0, "forward_flops": 0.02, "saved_bytes": 0.02}
BATCH = 2


def main(names):
    rows = [(name, "dynamo", None) for name in names or MODELS]
    rows += [(name, "torchscript", opset) for name, opset in TORCHSCRIPT.items() if not names or name in names]
    print(f"batch size {BATCH}, SGD, CPU kernels; ONNX export / captured")
    print(f"{'model':20} {'exporter':14} {'parameters':>12} {'FLOPs':>9} {'saved':>9} {'peak':>9} {'saved bytes':>15} {'export':>9}")
    worst, failed = {}, []
    for name, exporter, opset in rows:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / f"{name}.onnx"
            started = time.monotonic()
            export(name, str(path), exporter, opset, batch_size=BATCH)
            seconds = time.monotonic() - started
            read = inspect(path, batch_size=BATCH)
        captured, _ = inspect_capture(name, batch_size=BATCH)
        ratios = {figure: read[figure] / captured[figure] for figure in (*PROMISED, "peak_bytes")}
        label = exporter + (f" {opset}" if opset else "")
        print(f"{name:20} {label:14} {read['parameters']:12,} {ratios['forward_flops']:9.5f} {ratios['saved_bytes']:9.5f} "
              f"{ratios['peak_bytes']:9.5f} {read['saved_bytes']:15,} {seconds:7.1f} s", flush=True)
        for figure, promised in PROMISED.items():
            worst[figure] = max(worst.get(figure, 0.0), abs(ratios[figure] - 1))
            if abs(ratios[figure] - 1) > promised:
                failed.append(f"{name} ({label}): {figure} {read[figure]}, captured {captured[figure]}")
    print(f"{len(rows)} exports; furthest off: " + ", ".join(f"{f} {d:.3%} (of {PROMISED[f]:.1%})" for f, d in worst.items()))
    print("\n".join(failed), end="\n" if failed else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
