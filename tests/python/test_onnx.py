"""ONNX exports of the models in torch_models against the captured steps of the same models: parameters, forward FLOPs,
bytes saved for backward. Ten models are compared by `make bench`; here a few, of both exporters."""

import subprocess

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

from support.command_line import PROGRAM  # noqa: E402
from support.onnx_exports import export  # noqa: E402
from support.zoo_figures import inspect, inspect_capture  # noqa: E402

IMAGE = {"image_size": 96, "classes": 10}
EXPORTS = {
    "resnet18": ("torchscript", 11, IMAGE),
    "mobilenet_v2": ("dynamo", None, IMAGE),
    "distilgpt2": ("dynamo", 23, {"seq_len": 48}),
}
BATCH = 3


@pytest.fixture(scope="module", params=EXPORTS)
def exported(request, tmp_path_factory):
    """(name, file, sizes)."""
    exporter, opset, sizes = EXPORTS[request.param]
    path = tmp_path_factory.mktemp("onnx") / f"{request.param}.onnx"
    export(request.param, str(path), exporter, opset, batch_size=2, **sizes)
    return request.param, path, sizes


def test_an_export_is_its_captured_step(exported):
    name, path, sizes = exported
    read = inspect(path, batch_size=BATCH)
    captured, _ = inspect_capture(name, batch_size=BATCH, **sizes)
    assert read["parameters"] == captured["parameters"]
    assert read["forward_flops"] == pytest.approx(captured["forward_flops"], rel=0.001)
    assert read["saved_bytes"] == pytest.approx(captured["saved_bytes"], rel=0.001)
    assert read["peak_bytes"] == pytest.approx(captured["peak_bytes"], rel=0.02)


def test_the_batch_is_bound_by_the_flag(exported):
    _, path, _ = exported
    # From 2 on: with one sample, more views are contiguous and fewer copies are made.
    two, three, four = (inspect(path, batch_size=size) for size in (2, 3, 4))
    assert two["parameters"] == four["parameters"]
    assert four["forward_flops"] == 2 * two["forward_flops"]
    assert four["saved_bytes"] - three["saved_bytes"] == three["saved_bytes"] - two["saved_bytes"]


def test_both_devices_and_a_stateful_optimizer(exported):
    _, path, _ = exported
    for device in ("cpu", "cuda"):
        figures = inspect(path, batch_size=2, device=device, optimizer="adam")
        # Two moments of four bytes per parameter, and the step that each parameter counts.
        state = figures["bytes_by_kind"]["optimizer_state"]
        assert state == pytest.approx(8 * figures["parameters"], rel=0.001)


def refuse(path, *flags):
    done = subprocess.run([PROGRAM, "inspect", str(path), *flags], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_truncated_file_is_one_line(exported, tmp_path):
    _, path, _ = exported
    content = path.read_bytes()
    for part in (0.1, 0.5, 0.99):
        cut = tmp_path / "cut.onnx"
        cut.write_bytes(content[: int(len(content) * part)])
        assert "cut.onnx: byte " in refuse(cut)


def test_sizes_that_the_file_fixes_are_named(exported):
    _, path, _ = exported
    assert "does not apply to an ONNX file" in refuse(path, "--classes", "3")
    assert "no axis of the inputs is symbolic" in refuse(path, "--seq-len", "7")


def test_an_unknown_operator_is_named_and_may_be_assumed(tmp_path):
    import onnx
    from onnx import helper

    node = helper.make_node("Det", ["x"], ["y"], name="/odd/Det")
    weight = helper.make_tensor("w", 1, [4], [1.0] * 4)
    scale = helper.make_node("Mul", ["y", "w"], ["z"])
    value = helper.make_tensor_value_info
    graph = helper.make_graph([node, scale], "g", [value("x", 1, ["batch", 4])], [value("z", 1, None)], [weight])
    path = tmp_path / "odd.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    assert 'odd.onnx: node 0 (name "/odd/Det", op Det): operator is not supported' in refuse(path)
    done = subprocess.run([PROGRAM, "inspect", str(path), "--assume-elementwise", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
