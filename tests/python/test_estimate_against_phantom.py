"""`ebbtide estimate` beside `ebbtide dryrun` of the same training: what PyTorch's allocator holds at the peak."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "estimate"))
import phantom_bench  # noqa: E402

PHANTOM = pathlib.Path(phantom_bench.EBBTIDE).parent / "phantom" / "cu13"
pytestmark = pytest.mark.skipif(not PHANTOM.is_dir(), reason="the build has no phantom GPU")


@pytest.mark.parametrize("combination", [
    ("mlp", "adam", 256), ("alexnet", "momentum", 128), ("resnet50", "adam", 32), ("mobilenet_v2", "adagrad", 64),
    ("inception_v3", "rmsprop", 32), ("densenet121", "adamw", 32), ("convnext_tiny", "sgd", 8), ("lstm", "adagrad", 5),
    ("opt-125m", "adamw", 2, "--seq-len", "384"), ("resnet50", "none", 64, "--inference"),
    ("vgg16", "sgd", 32, "--autocast", "bf16"), ("resnet50", "adam", 8, "--alloc-conf", "expandable_segments:True")],
    ids=phantom_bench.name_of)
def test_the_same_peak(combination):
    phantom, estimate = phantom_bench.compare(combination, "a100-80gb")
    assert abs(estimate / phantom - 1) <= 0.01
