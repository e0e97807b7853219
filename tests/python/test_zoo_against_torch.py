"""Built-in models against the modules they stand for: parameters, forward FLOPs, bytes saved for backward, peak."""

import pytest

torch = pytest.importorskip("torch")

from support.command_line import result_of  # noqa: E402
from support.zoo_figures import CAPTURED, counted_flops, inspect, inspect_capture, torch_parameters  # noqa: E402

from ebbtide import torch_models  # noqa: E402

# On the meta device, torch's counter sees the matrix products inside nn.LSTM, which are one uncounted call on CPU and GPU.
NOT_COUNTED = ("lstm",)


@pytest.mark.parametrize("name", torch_models.NAMES)
def test_parameters_are_those_of_the_torch_model(name):
    assert inspect(name, batch_size=1)["parameters"] == torch_parameters(name)


@pytest.mark.parametrize("name", [name for name in torch_models.NAMES if name not in NOT_COUNTED])
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
@pytest.mark.parametrize("optimizer", torch_models.OPTIMIZERS)
def test_updates_take_what_captured_ones_take(optimizer):
    built_in = inspect("mlp", batch_size=3, optimizer=optimizer)
    captured, _ = inspect_capture("mlp", batch_size=3, optimizer=optimizer)
    state = "optimizer_state"
    assert built_in["bytes_by_kind"].get(state, 0) == captured["bytes_by_kind"].get(state, 0)
    assert built_in["peak_bytes"] == pytest.approx(captured["peak_bytes"], rel=0.01)


def test_every_built_in_model_stands_for_a_torch_model():
    assert {model["name"] for model in result_of("models")["models"]} == set(torch_models.NAMES)


def test_every_kind_of_op_is_compared():
    """A built-in model with an op that no captured model has is noticed here: its gradient rule would be compared with nothing."""
    def kinds(name, **sizes):
        return {each["kind"] for each in inspect(name, **sizes)["ops_by_kind"]}

    compared = set().union(*(kinds(name, **sizes) for name, sizes in CAPTURED.items()))
    assert {name: kinds(name, batch_size=1) - compared for name in torch_models.NAMES if name not in CAPTURED} == {
        name: set() for name in torch_models.NAMES if name not in CAPTURED}
