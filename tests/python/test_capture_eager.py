"""The captured ops are those that PyTorch runs: kind by kind, in order, as its profiler saw them in a real step."""

import functools

import pytest

torch = pytest.importorskip("torch")

from support.replay import loss_of  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

import ebbtide  # noqa: E402
from ebbtide.torch_models import TokenLSTM, UNet  # noqa: E402

# Handles, memory that holds nothing, and numbers that go to or come from tensors: the profiler and the tracer see them
# differently.
NOT_COMPARED = {"_local_scalar_dense", "alias", "detach", "detach_", "empty", "scalar_tensor", "unsqueeze", "zero_"}


@functools.cache
def is_composite(name):
    """Whether an operator only calls others."""
    packet = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
    if packet is None:
        return True
    for overload in packet.overloads():
        try:
            full_name = name if overload == "default" else f"{name}.{overload}"
            if torch._C._dispatch_has_kernel_for_dispatch_key(full_name, "CompositeImplicitAutograd"):
                return True
        except RuntimeError:  # an overload of TorchScript only
            continue
    return False


def profiled_ops(model, loss_fn, optimizer, batch, captured_kinds):
    def step():
        optimizer.zero_grad()
        loss_of(model, loss_fn, batch).backward()
        optimizer.step()

    step()  # state is made
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        step()

    def last_first(events):
        return sorted(events, key=lambda e: e.time_range.start)[::-1]

    kinds, waiting = [], last_first(e for e in profiled.events() if e.cpu_parent is None)
    while waiting:
        event = waiting.pop()
        kind = event.name.removeprefix("aten::")
        if event.name.startswith("aten::") and (kind in captured_kinds or not is_composite(event.name)):
            kinds.append({"_reshape_alias": "view", "as_strided_": "as_strided"}.get(kind, kind))
        else:
            waiting += last_first(event.cpu_children)
    return [k for k in kinds if k not in NOT_COMPARED]


class Branches(nn.Module):
    """Concatenation, a skip and a shared layer: gradients meet in every way they can."""

    def __init__(self):
        super().__init__()
        self.stem, self.shared = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.join, self.head = nn.Conv2d(12, 4, 1), nn.Linear(4, 5)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        y = torch.relu(self.shared(x))
        z = self.shared(y) + x
        return self.head((self.join(torch.cat([x, y, z], 1)) + z).mean((2, 3)))


def images(size, classes=5):
    return torch.randn(2, 3, size, size), torch.randint(0, classes, (2,))


def models():
    torch.manual_seed(0)
    yield "branches", Branches(), F.cross_entropy, images(8)
    yield "unet", UNet(2, (4, 8)), F.cross_entropy, (torch.randn(2, 3, 16, 16), torch.randint(0, 2, (2, 16, 16)))
    tokens = torch.randint(0, 50, (3, 7))
    yield "lstm", TokenLSTM(50, 16), lambda y, t: F.cross_entropy(y.flatten(0, 1), t.flatten()), (tokens, tokens)
    transformers = pytest.importorskip("transformers")
    ids = torch.randint(0, 100, (2, 16))
    for class_name, options in {
        "GPT2LMHeadModel": {"n_layer": 2, "n_embd": 32, "n_head": 2, "n_positions": 64},
        "T5ForConditionalGeneration": {"d_model": 32, "d_ff": 64, "num_layers": 1, "num_heads": 4, "d_kv": 8, "decoder_start_token_id": 0},
        "LlamaForCausalLM": {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2},
    }.items():
        model_class = getattr(transformers, class_name)
        model = model_class(model_class.config_class(vocab_size=100, use_cache=False, **options)).train()
        yield class_name, model, None, {"input_ids": ids, "labels": ids.clone()}


def test_captured_ops_are_those_that_run(capfd):
    for name, model, loss_fn, batch in models():
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        captured = ebbtide.capture(model, loss_fn, optimizer, batch)
        kinds = [op["kind"] for op in captured.graph["ops"] if op["kind"] not in NOT_COMPARED]
        assert kinds == profiled_ops(model, loss_fn, optimizer, batch, set(kinds)), name
    capfd.readouterr()  # the profiler's own messages
