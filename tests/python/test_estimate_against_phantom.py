"""`ebbtide estimate` beside `ebbtide dryrun` of the same training: what PyTorch's allocator holds at the peak."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import estimate_bench  # noqa: E402

PHANTOM = pathlib.Path(estimate_bench.EBBTIDE).parent / "phantom" / "cu13"
pytestmark = pytest.mark.skipif(not PHANTOM.is_dir(), reason="the build has no phantom GPU")


@pytest.mark.parametrize("model, optimizer, batch", [
    ("mlp", "adam", 256), ("alexnet", "momentum", 128), ("resnet50", "adam", 32), ("mobilenet_v2", "adagrad", 64),
    ("inception_v3", "rmsprop", 32), ("densenet121", "adamw", 32)])
def test_the_same_peak(model, optimizer, batch):
    phantom, estimate = estimate_bench.compare((model, optimizer, batch), "a100-80gb")
    assert abs(estimate / phantom - 1) <= 0.01
