"""A step at any batch from captures at two: exactly what a capture at that batch gives, or a line that says why not."""

import json

import pytest

torch = pytest.importorskip("torch")
native = pytest.importorskip("ebbtide.native")

import torch.nn.functional as F  # noqa: E402
from support.command_line import assert_refused, result_of, run  # noqa: E402
from torch import nn  # noqa: E402

from ebbtide.capture.batches import batch_size_of, capture_batches, resized, telling_batches  # noqa: E402


def graphs(parts, batches):
    return [native.Graph(json.dumps(step.graph)) for step in capture_batches(*parts, batches=batches)]


def classifier(model, image):
    optimizer = torch.optim.Adam(model.parameters())
    return model, F.cross_entropy, optimizer, (torch.zeros(2, 3, image, image), torch.zeros(2, dtype=torch.long))


def torchvision(name, **options):
    return lambda: classifier(getattr(pytest.importorskip("torchvision").models, name)(num_classes=10, **options), 32)


def gpt2():
    transformers = pytest.importorskip("transformers")
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=99))
    tokens = torch.zeros(2, 16, dtype=torch.long)
    return model, None, torch.optim.AdamW(model.parameters()), {"input_ids": tokens, "labels": tokens}


def bert():
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=64,
                                     vocab_size=99)
    tokens = torch.zeros(2, 16, dtype=torch.long)
    batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": torch.zeros(2, dtype=torch.long)}
    model = transformers.BertForSequenceClassification(config)
    return model, None, torch.optim.SGD(model.parameters(), lr=0.1), batch


def t5():
    transformers = pytest.importorskip("transformers")
    model = transformers.T5ForConditionalGeneration(
        transformers.T5Config(num_layers=1, d_model=32, d_kv=16, num_heads=2, d_ff=64, vocab_size=99, decoder_start_token_id=0))
    tokens = torch.zeros(2, 12, dtype=torch.long)
    return model, None, torch.optim.Adafactor(model.parameters()), {"input_ids": tokens, "labels": tokens[:, :8]}


def recurrent():
    model = nn.LSTM(8, 16, batch_first=True)
    return model, lambda out: out[0].mean(), torch.optim.RMSprop(model.parameters()), torch.zeros(2, 5, 8)


MODELS = {
    "resnet18": torchvision("resnet18"), "mobilenet_v3_small": torchvision("mobilenet_v3_small"),
    "vit": torchvision("VisionTransformer", image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64),
    "gpt2": gpt2, "bert": bert, "t5": t5, "lstm": recurrent,
}


@pytest.mark.parametrize("name", MODELS)
def test_any_batch_is_what_a_capture_gives(name):
    parts = MODELS[name]()
    first, second, third = graphs(parts, [3, 8, 61])
    any_batch = native.AnyBatch(first, second)
    any_batch.confirm(third)
    made, captured = json.loads(any_batch.at(61).to_json()), json.loads(third.to_json())
    sizes = lambda graph: [  # noqa: E731  by another way than confirm() compares
        [s["bytes"] for s in graph["storages"]], [t["shape"] for t in graph["tensors"]], [op.get("flops", 0) for op in graph["ops"]]]
    assert sizes(made) == sizes(captured) != sizes(json.loads(first.to_json()))


def test_a_loss_over_all_pairs_is_refused_by_the_third_capture():
    model = nn.Linear(16, 32)
    loss = lambda out: F.cross_entropy(out @ out.T, torch.arange(len(out)))  # noqa: E731
    parts = (model, loss, torch.optim.SGD(model.parameters(), lr=0.1), torch.zeros(8, 16))
    first, second, third = graphs(parts, None)
    # 8 * 8 and 17 * 17 scores lie on a line with slope 225 / 9 = 25; 29 * 29 do not lie on it.
    with pytest.raises(ValueError, match=r"ops\[\d+\] \((mm|t|_log_softmax|arange|\w+), loss\).*not on the line"):
        native.AnyBatch(first, second).confirm(third)


def test_sizes_that_do_not_grow_evenly_are_refused():
    class Halves(nn.Linear):
        def forward(self, x):
            return super().forward(x[: len(x) // 2]).sum()

    model = Halves(4, 4)
    first, second = graphs((model, None, None, torch.zeros(2, 4)), [4, 9])
    # 4 // 2 = 2 and 9 // 2 = 4: a rise of 2 over 5 samples.
    with pytest.raises(ValueError, match=r"a size grows by -?\d+ from batch 4 to 9; expected a multiple of 5"):
        native.AnyBatch(first, second)


def test_steps_that_differ_are_refused():
    one, two = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    graph_of = lambda model, batch: graphs((model, lambda out: out.sum(), None, torch.zeros(2, 4)), [batch])[0]  # noqa: E731
    with pytest.raises(ValueError, match="not the same at both batches"):
        native.AnyBatch(graph_of(one, 2), graph_of(two, 3))
    with pytest.raises(ValueError, match="all inputs have the same sizes"):
        native.AnyBatch(graph_of(one, 2), graph_of(one, 2))
    with pytest.raises(ValueError, match="batch 0: expected a positive one"):
        native.AnyBatch(graph_of(one, 2), graph_of(one, 3)).at(0)


def test_the_example_is_cut_or_continued_in_its_own_order():
    batch = {"x": torch.zeros(4, 3, 8, 8).to(memory_format=torch.channels_last), "table": torch.zeros(7, 2), "n": 3,
             "y": torch.zeros(4, dtype=torch.long)}
    assert batch_size_of(batch) == 4
    for size in (1, 9):
        new = resized(batch, size)
        assert new["x"].shape == (size, 3, 8, 8) and new["x"].stride()[1:] == (1, 24, 3)
        assert new["y"].shape == (size,) and new["y"].dtype == torch.long
        assert new["table"] is batch["table"] and new["n"] == 3
    assert telling_batches(1) == telling_batches(2) == (2, 5, 11)


SCRIPT = """
import torch
from torch import nn

def fixed():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    batch = (torch.zeros(6, 3, 16, 16), torch.zeros(6, dtype=torch.long))
    return model, nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), batch

def pairs(batch_size=8):
    model = nn.Linear(16, 32)
    loss = lambda out: (out @ out.T).sum()
    return model, loss, None, torch.zeros(batch_size, 16)
"""


def test_scripts_and_pairs_of_captures_have_a_largest_batch(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    graph = tmp_path / "step.json"
    done = run("capture", f"{script}:fixed", "--any-batch", "--device", "cuda", "-o", graph)
    if "no phantom GPU" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0 and done.stdout.count(" ops, ") == 3
    pair = [graph, "--other-batch", tmp_path / "step.second.json", "--other-batch", tmp_path / "step.third.json"]
    words = ("--gpu", "rtx3060", "--with-plan", "--policy", "dtr")
    fit = result_of("fit", *pair, *words)
    assert fit["gpus"] == result_of("fit", f"{script}:fixed", *words)["gpus"]
    assert fit["gpus"][0]["max_batch_with_plan"] >= fit["gpus"][0]["with_plan"]["max_batch_kept"]
    largest = fit["gpus"][0]["max_batch"]
    assert largest > 1000
    assert run("estimate", *pair, "--gpu", "rtx3060", "--batch-size", largest).returncode == 0
    assert run("estimate", *pair, "--gpu", "rtx3060", "--batch-size", largest + 1).returncode == 1
    # Without a parameter batch_size the function's example is continued.
    captured = result_of("estimate", f"{script}:fixed", "--gpu", "rtx3060", "--batch-size", 500)
    made = result_of("estimate", *pair, "--gpu", "rtx3060", "--batch-size", 500)
    assert {k: v for k, v in captured.items() if k != "model"} == {k: v for k, v in made.items() if k != "model"}
    assert_refused(run("fit", f"{script}:pairs", "--gpu", "rtx3060"), "pairs: ops[", "batch")
    assert_refused(run("fit", graph, "--gpu", "rtx3060"), "expected --other-batch FILE")
    assert_refused(run("fit", *pair, "--optimizer", "adam"), "--optimizer: of no use with")
    assert_refused(run("fit", "mlp", "--other-batch", graph), "--other-batch: of no use with mlp")
