"""What a captured graph says: phases, storages, names, layers, and that capturing changes nothing."""

import contextlib
import copy
import gzip
import json
import os
import subprocess
import sys
import threading

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import ebbtide  # noqa: E402
from ebbtide import CaptureError  # noqa: E402
from ebbtide.capture import layers  # noqa: E402


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 3))


def captured_perceptron(**options):
    model = perceptron()
    batch = (torch.randn(2, 6), torch.tensor([0, 2]))
    return ebbtide.capture(model, F.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1, **options), batch).graph


def ops(graph, **fields):
    return [op for op in graph["ops"] if all(op.get(name) == value for name, value in fields.items())]


def sizes(graph, kind):
    return {s.get("name"): s["bytes"] for s in graph["storages"] if s["kind"] == kind}


def test_storages_of_a_perceptron():
    graph = captured_perceptron(momentum=0.9)
    parameters = {"0.weight": 4 * 6 * 4, "0.bias": 4 * 4, "2.weight": 3 * 4 * 4, "2.bias": 3 * 4}  # float32: 4 bytes
    assert sizes(graph, "parameter") == parameters
    assert sizes(graph, "gradient") == parameters
    assert sizes(graph, "optimizer_state") == {f"momentum_buffer.{n}": b for n, b in parameters.items()}
    assert sizes(graph, "input") == {"batch.0": 2 * 6 * 4, "batch.1": 2 * 8}  # int64 classes
    saved = sorted(s["bytes"] for s in graph["storages"] if s["kind"] == "activation")
    # The loss and its weight (one float each), log-softmax (2x3), ReLU's output (2x4).
    assert saved == [4, 4, 2 * 3 * 4, 2 * 4 * 4]


def test_ops_stand_in_order_and_know_their_layer():
    graph = captured_perceptron()
    phases = [op["phase"] for op in graph["ops"]]
    assert phases == sorted(phases, key=["forward", "backward", "update"].index)
    assert [op["kind"] for op in ops(graph, layer="0", phase="forward")] == ["t", "addmm"]
    assert "threshold_backward" in [op["kind"] for op in ops(graph, layer="1", phase="backward")]
    assert {op["kind"] for op in ops(graph, layer="loss")} >= {"nll_loss_forward", "nll_loss_backward"}
    assert [op["kind"] for op in ops(graph, layer="2", phase="update")] == ["add_", "add_"]


def test_arguments_are_complete_and_typed():
    graph = captured_perceptron()
    (addmm,) = ops(graph, kind="addmm", layer="0")
    assert addmm["schema"] == "aten::addmm.default"
    assert list(addmm["arguments"]) == ["self", "mat1", "mat2", "beta", "alpha"]
    assert addmm["arguments"]["alpha"] == 1 and addmm["flops"] == 2 * 2 * 6 * 4
    backward = [op["flops"] for op in ops(graph, phase="backward", kind="mm")]
    # Both gradients of the last layer, only the weight's of the first: its input needs none.
    assert sorted(backward) == [2 * 2 * 4 * 3, 2 * 2 * 4 * 3, 2 * 2 * 6 * 4]


def test_learning_rate_is_a_scalar_input():
    graph = captured_perceptron()
    minus_lr = [s["name"] for s in graph["scalars"]].index("group0.minus_lr")
    assert graph["scalars"][minus_lr]["value"] == -0.1
    update = ops(graph, phase="update")
    assert len(update) == 4 and all(op["arguments"]["alpha"] == {"scalar": minus_lr} for op in update)


def test_every_tensor_is_made_before_it_is_read():
    graph = captured_perceptron(momentum=0.9, nesterov=True)
    persistent = {"parameter", "buffer", "optimizer_state", "input"}
    made = {n for n, t in enumerate(graph["tensors"]) if graph["storages"][t["storage"]]["kind"] in persistent and "name" in t}
    for op in graph["ops"]:
        assert set(op["inputs"]) <= made and len(set(op["inputs"])) == len(op["inputs"])
        assert set(op.get("mutated", [])) <= set(op["inputs"])
        assert not made & set(op["outputs"])
        made |= set(op["outputs"])
    assert set(graph["outputs"]) <= made and len(made) == len(graph["tensors"])


def test_batch_norm_writes_its_statistics():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(8, 2))
    batch = (torch.randn(2, 1, 4, 4), torch.tensor([0, 1]))
    graph = ebbtide.capture(model, F.cross_entropy, None, batch).graph
    names = [t.get("name") for t in graph["tensors"]]
    (norm,) = ops(graph, kind="native_batch_norm")
    assert [names[t] for t in norm["mutated"]] == ["1.running_mean", "1.running_var"]
    (relu,) = ops(graph, kind="relu_")
    storage = [t["storage"] for t in graph["tensors"]]
    assert storage[relu["outputs"][0]] == storage[relu["mutated"][0]] and relu["outputs"] != relu["mutated"]
    model.eval()
    graph = ebbtide.capture(model, F.cross_entropy, None, batch).graph
    assert "mutated" not in ops(graph, kind="native_batch_norm")[0]


def test_tied_weights_are_one_storage():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.output = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
            self.output.weight = self.embedding.weight

        def forward(self, x):
            return self.output(self.embedding(x))

    model = Tied()
    batch = (torch.tensor([1, 2]), torch.tensor([3, 4]))
    graph = ebbtide.capture(model, F.cross_entropy, torch.optim.Adam(model.parameters()), batch).graph
    assert list(sizes(graph, "parameter").values()) == [10 * 4 * 4]
    assert len(sizes(graph, "optimizer_state")) == 2


def test_random_ops_are_marked_and_never_dropped():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.drop = nn.Linear(4, 4), nn.Dropout(0.5)

        def forward(self, x):
            torch.rand(3)  # read by nobody, but it moves the random state
            return self.drop(self.layer(x))

    graph = ebbtide.capture(Noisy(), lambda y: y.sum(), None, torch.randn(2, 4)).graph
    assert [op["kind"] for op in graph["ops"] if op.get("random")] == ["rand", "bernoulli_"]


def test_values_that_depend_on_no_data_are_known():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            positions = torch.arange(x.shape[0])
            positions[0] = 3
            if (positions.diff() > 0).all():
                raise AssertionError("3, 1, 2 does not rise")
            if torch.rand([]) < 0:
                raise AssertionError("no draw is negative")
            return self.layer(x) * positions.max().item()

    graph = ebbtide.capture(Positions(), lambda y: y.sum(), None, torch.randn(3, 4)).graph
    (scaled,) = [op for op in ops(graph, kind="mul", phase="forward")]
    assert scaled["arguments"]["other"] == 3


def test_constants_keep_their_values():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.weights = nn.Linear(2, 2), torch.tensor([3.0, 4.0])

        def forward(self, x):
            return self.layer(x) * self.weights + torch.tensor([[1, 2]])

    captured = ebbtide.capture(Weighted(), lambda y: y.sum(), None, torch.randn(3, 2))
    values = {name: json.loads(value) for name, value in captured.graph["meta"].items() if name.startswith("constant")}
    assert list(values.values()) == [[3.0, 4.0], [[1, 2]]]
    assert sum(source.name.startswith("constant") for source in captured.sources.values()) == 2


def test_buffer_that_is_replaced_keeps_the_new_value():
    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)
            self.register_buffer("mean", torch.zeros(2))

        def forward(self, x):
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
            return self.layer(x) - self.mean

    model = Average()
    buffer = model.mean
    graph = ebbtide.capture(model, lambda y: y.sum(), None, torch.randn(3, 2)).graph
    (copied,) = ops(graph, kind="copy_")
    assert graph["tensors"][copied["mutated"][0]]["name"] == "mean" and model.mean is buffer


def test_hook_on_a_parameter_is_part_of_the_step():
    model = nn.Linear(2, 2, bias=False)
    model.weight.register_hook(lambda gradient: gradient.clamp(-1, 1))
    graph = ebbtide.capture(model, lambda y: y.sum(), None, torch.randn(3, 2)).graph
    (clamp,) = ops(graph, kind="clamp", phase="backward")
    gradient = graph["storages"][graph["tensors"][clamp["outputs"][0]]["storage"]]
    assert gradient == {"kind": "gradient", "bytes": 16, "name": "weight", "released_after": len(graph["ops"]) - 1}


def test_nothing_changes():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters())
    batch = (torch.randn(2, 3, 4, 4), torch.tensor([0, 1]))
    F.cross_entropy(model(batch[0]), batch[1]).backward()
    optimizer.step()
    hook = model[0].register_forward_hook(lambda *_: None)
    model[2].eval()
    before = copy.deepcopy((model.state_dict(), [p.grad for p in model.parameters()], optimizer.state_dict(), batch))
    objects = [id(t) for t in (*model.parameters(), *model.buffers(), *(p.grad for p in model.parameters()))]
    random_state = torch.get_rng_state()
    ebbtide.capture(model, F.cross_entropy, optimizer, batch)
    after = (model.state_dict(), [p.grad for p in model.parameters()], optimizer.state_dict(), batch)
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert objects == [id(t) for t in (*model.parameters(), *model.buffers(), *(p.grad for p in model.parameters()))]
    assert torch.equal(torch.get_rng_state(), random_state)
    assert model.training and not model[2].training
    assert list(model[0]._forward_hooks) == [hook.id] and not torch.nn.modules.module._global_forward_hooks
    assert type(torch._subclasses.FakeTensor) is type(torch.Tensor)


def test_what_a_batch_means():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x, scale=1.0):
            return {"loss": (self.layer(x) * scale).sum(), "out": x}

    x = torch.randn(3, 2)
    two = {"x": x, "scale": torch.ones(2)}
    for loss_fn, batch, inputs in [
        (None, {"x": x}, ["batch.x"]),
        (None, two, ["batch.x", "batch.scale"]),
        (lambda out: out["loss"] * 2, two, ["batch.x", "batch.scale"]),
        (lambda out, batch: out["loss"] * batch["scale"].sum(), two, ["batch.x", "batch.scale"]),
        (lambda out: out["loss"], x, ["batch"]),
        (lambda out, target: F.mse_loss(out["loss"], target), (x, torch.tensor(1.0)), ["batch.0", "batch.1"]),
        (None, (x, torch.ones(2)), ["batch.0", "batch.1"]),
    ]:
        graph = ebbtide.capture(Named(), loss_fn, None, batch).graph
        assert list(sizes(graph, "input")) == inputs


def test_file_is_the_graph_plain_and_compressed(tmp_path):
    model = perceptron()
    captured = ebbtide.capture(model, F.cross_entropy, None, (torch.randn(2, 6), torch.tensor([0, 1])))
    captured.save(tmp_path / "step.json")
    captured.save(tmp_path / "step.json.gz")
    plain = (tmp_path / "step.json").read_bytes()
    assert json.loads(plain) == captured.graph
    assert gzip.decompress((tmp_path / "step.json.gz").read_bytes()) == plain
    assert sorted(os.listdir(tmp_path)) == ["step.json", "step.json.gz"]
    with pytest.raises(CaptureError, match="no-such-folder/step.json: cannot be written"):
        captured.save(tmp_path / "no-such-folder" / "step.json")


def test_same_step_same_file():
    assert captured_perceptron(momentum=0.9) == captured_perceptron(momentum=0.9)


class Asks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return self.layer(x) * self.layer(x).sum().item()


@pytest.mark.parametrize(("model", "loss_fn", "batch", "expected"), [
    (Asks(), None, torch.ones(1, 2), r"test_capture.py:\d+: .item\(\), or `if`, int\(\) or float\(\) of a tensor, needs the values of a tensor"),
    (nn.Linear(2, 2), None, torch.ones(1, 2), r"the loss is of shape \(1, 2\); expected a tensor of one number"),
    (nn.Linear(2, 2), lambda y: 1.0, torch.ones(1, 2), "the loss is of type float"),
    (nn.Linear(2, 2), lambda y: torch.ones(()), torch.ones(1, 2), "depends on no parameter"),
    (nn.Linear(3, 2), lambda y: y.sum(), torch.ones(1, 2), "the forward pass: RuntimeError: a and b must have same reduction dim"),
    (nn.Embedding(4, 2, sparse=True), lambda y: y.sum(), torch.tensor([1]), "a sparse_coo tensor; expected dense ones"),
    (nn.Linear(2, 2), lambda y: y.sum(), "abc", "the batch is of type str"),
    ("resnet50", None, torch.ones(1), "model is of type str; expected a torch.nn.Module"),
    (nn.Linear(2, 2), 3, torch.ones(1, 2), "loss_fn is of type int; expected a function or None"),
])
def test_refusals_are_one_line(model, loss_fn, batch, expected):
    with pytest.raises(CaptureError, match=expected) as refusal:
        ebbtide.capture(model, loss_fn, None, batch)
    assert "\n" not in str(refusal.value)


def test_foreign_parameters_are_refused():
    with pytest.raises(CaptureError, match="group 0 holds a parameter that is not the model's"):
        ebbtide.capture(
            nn.Linear(2, 2), lambda y: y.sum(), torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1), torch.ones(1, 2)
        )


def test_trainable_tensor_outside_of_the_model_is_refused():
    scale = torch.ones(2, requires_grad=True)
    with pytest.raises(CaptureError, match=r"test_capture.py:\d+: a tensor of shape \(2,\) requires a gradient"):
        ebbtide.capture(nn.Linear(2, 2), lambda y: (y * scale).sum(), None, torch.ones(1, 2))
    assert scale.grad is None


def test_no_gpu_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(CaptureError, match="device cuda: PyTorch sees no GPU"):
        ebbtide.capture(perceptron(), None, None, torch.ones(1, 6), device="cuda")
    with pytest.raises(CaptureError, match="device 'tpu': expected cpu or cuda"):
        ebbtide.capture(perceptron(), None, None, torch.ones(1, 6), device="tpu")


def test_import_does_not_load_torch():
    code = "import sys, ebbtide; sys.exit('torch' in sys.modules)"
    folder = os.path.dirname(os.path.dirname(ebbtide.__file__))
    assert subprocess.run([sys.executable, "-c", code], cwd=folder, check=False).returncode == 0


@pytest.mark.parametrize("folder", ["of-pip-target", "other-environment/lib/python3.11/site-packages"])
def test_refusals_name_the_user_s_line_wherever_packages_are(folder, tmp_path, monkeypatch):
    installed = tmp_path / folder
    (installed / "helper_of_others-1.0.dist-info").mkdir(parents=True)
    (installed / "helper_of_others.py").write_text("def branch(x):\n    return x * 2 if x.sum() > 0 else x\n")
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.delitem(sys.modules, "helper_of_others", raising=False)
    import helper_of_others

    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 4)

        def forward(self, x):
            return helper_of_others.branch(self.layer(x))  # the line

    model = Branching()
    with pytest.raises(CaptureError) as caught:
        ebbtide.capture(model, F.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), (torch.randn(2, 6), torch.randn(2, 4)))
    monkeypatch.delitem(sys.modules, "helper_of_others", raising=False)
    with open(__file__, encoding="utf-8") as file:
        line = next(number for number, text in enumerate(file, 1) if "# the line" in text)
    assert f"test_capture.py:{line}" in str(caught.value)


def test_captures_of_several_threads_take_turns(monkeypatch):
    """Their hooks are on torch as a whole: one that saw another's would take them for effects of its model."""
    within, most, graphs = set(), [], []
    followed = layers.Layers.followed

    @contextlib.contextmanager
    def counted(self):
        within.add(self)
        with followed(self):
            most.append(len(within))
            yield
            most.append(len(within))
        within.discard(self)

    monkeypatch.setattr(layers.Layers, "followed", counted)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=lambda: graphs.extend(captured_perceptron() for _ in range(3))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert most == [1] * 18 and all(graph == graphs[0] for graph in graphs[1:]) and len(graphs) == 9
