"""Built-in models against the modules they stand for: parameters, forward FLOPs, bytes saved for backward, peak."""

import pytest

torch = pytest.importorskip("torch")

from ebbtide import twins  # noqa: E402
from zoo_figures import counted_flops, inspect, inspect_capture, twin_parameters  # noqa: E402

# Sizes that keep captures quick and differ from the defaults. `make bench` compares all models at their defaults.
IMAGE = {"batch_size": 3, "image_size": 96, "classes": 10}
TOKENS = {"batch_size": 3, "seq_len": 48}
CAPTURED = {
    "alexnet": IMAGE, "vgg11": IMAGE, "vgg16": IMAGE, "resnet18": IMAGE, "resnet50": IMAGE, "densenet121": IMAGE,
    "inception_v3": {"batch_size": 2, "classes": 10}, "inception_v4": IMAGE, "mobilenet_v2": IMAGE,
    "mobilenet_v3_small": IMAGE, "mobilenet_v3_large": IMAGE, "mnasnet1_0": IMAGE, "regnet_x_400mf": IMAGE,
    "regnet_y_400mf": IMAGE, "convnext_tiny": IMAGE, "unet": IMAGE, "lstm": TOKENS, "mlp": {"batch_size": 3},
    "bert-base": TOKENS, "distilgpt2": TOKENS, "gpt-neo-125m": TOKENS, "opt-125m": TOKENS, "t5-small": TOKENS,
    "opt-350m": TOKENS, "llama-3.2-1b": TOKENS, "qwen3-4b": TOKENS, "gemma-2-2b": TOKENS,
}
# On the meta device, torch's counter sees the matrix products inside nn.LSTM, which are one uncounted call on CPU and GPU.
NOT_COUNTED = ("lstm",)


@pytest.mark.parametrize("name", twins.NAMES)
def test_parameters_are_the_twins_own(name):
    assert inspect(name, batch_size=1)["parameters"] == twin_parameters(name)


@pytest.mark.parametrize("name", [name for name in twins.NAMES if name not in NOT_COUNTED])
def test_forward_flops_are_those_of_torchs_counter(name):
    sizes = {"batch_size": 2}
    assert inspect(name, **sizes)["forward_flops"] == pytest.approx(counted_flops(name, **sizes), rel=0.005)


# Promised are 0.5 % of FLOPs and 1 % of bytes. The figures are equal; where a machine's kernels differ, little may.
@pytest.mark.parametrize("name", CAPTURED)
def test_memory_is_that_of_the_captured_step(name):
    built_in = inspect(name, **CAPTURED[name])
    captured, _ = inspect_capture(name, **CAPTURED[name])
    assert built_in["parameters"] == captured["parameters"]
    assert built_in["forward_flops"] == pytest.approx(captured["forward_flops"], rel=0.001)
    assert built_in["saved_bytes"] == pytest.approx(captured["saved_bytes"], rel=0.001)
    assert built_in["peak_bytes"] == pytest.approx(captured["peak_bytes"], rel=0.001)


# The perceptron is all weights: its peak is in the update.
@pytest.mark.parametrize("optimizer", twins.OPTIMIZERS)
def test_updates_take_what_captured_ones_take(optimizer):
    built_in = inspect("mlp", batch_size=3, optimizer=optimizer)
    captured, _ = inspect_capture("mlp", batch_size=3, optimizer=optimizer)
    state = "optimizer_state"
    assert built_in["bytes_by_kind"].get(state, 0) == captured["bytes_by_kind"].get(state, 0)
    assert built_in["peak_bytes"] == pytest.approx(captured["peak_bytes"], rel=0.01)


def test_enough_models_are_captured():
    assert len(CAPTURED) >= 20
    assert set(CAPTURED) <= set(twins.NAMES)
