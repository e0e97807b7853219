"""Whole steps: a captured graph, run op by op, trains to the last bit like plain PyTorch."""

import pytest

torch = pytest.importorskip("torch")

from support.replay import assert_trains_alike  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import ebbtide  # noqa: E402
from ebbtide.torch_models import TokenLSTM  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


class Residual(nn.Module):
    """Gradients meet at the skip, batch norm keeps statistics, dropout draws."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.body = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Dropout(0.3))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))

    def forward(self, x):
        x = self.stem(x)
        x = x + self.body(x)
        return self.head(x)


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["nchw", "nhwc"])
def test_convolutions_batch_norm_and_dropout(layout):
    batch = (torch.randn(4, 3, 8, 8).to(memory_format=layout), torch.randint(0, 5, (4,)))
    model = Residual().to(memory_format=layout)
    assert_trains_alike(ebbtide.capture, model, F.cross_entropy, momentum, batch, steps=3, check_writes=True)


def test_lstm():
    def loss_fn(scores, target):
        return F.cross_entropy(scores.flatten(0, 1), target.flatten())

    tokens = torch.randint(0, 50, (3, 7))
    assert_trains_alike(ebbtide.capture, TokenLSTM(50, 16), loss_fn, momentum, (tokens, tokens.roll(1, 1)), steps=3)


def test_gru_whose_gates_are_transposed_in_place():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(8, 8, num_layers=2, dropout=0.2, batch_first=True)

        def forward(self, x):
            return self.gru(x)[0][:, -1]

    assert_trains_alike(ebbtide.capture, Last(), F.mse_loss, momentum, (torch.randn(4, 6, 8), torch.randn(4, 8)), steps=2)


def test_gradients_that_nobody_asks_for():
    """Behind a frozen first layer, batch norm's backward gives no gradient of its input."""
    model = Residual()
    model.stem[0].weight.requires_grad_(False)
    batch = (torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,)))

    def of_trained(parameters):
        return momentum([p for p in parameters if p.requires_grad])

    assert_trains_alike(ebbtide.capture, model, F.cross_entropy, of_trained, batch, steps=2)


def test_autocast():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.layers(x)

    batch = (torch.randn(4, 8), torch.randint(0, 4, (4,)))
    assert_trains_alike(ebbtide.capture, Mixed(), lambda y, t: F.cross_entropy(y.float(), t), torch.optim.AdamW, batch, steps=3)


def tokens():
    ids = torch.randint(5, 100, (2, 16))
    return {"input_ids": ids, "labels": ids.clone()}


def transformers_model(class_name, **options):
    transformers = pytest.importorskip("transformers")
    model_class = getattr(transformers, class_name)
    return model_class(model_class.config_class(vocab_size=100, use_cache=False, **options)).train()


def test_gpt2_with_tied_weights_and_dropout():
    model = transformers_model("GPT2LMHeadModel", n_layer=2, n_embd=32, n_head=2, n_positions=64)
    captured = assert_trains_alike(ebbtide.capture, model, None, torch.optim.AdamW, tokens(), steps=3)
    named = [s for s in captured.graph["storages"] if s.get("name") in ("transformer.wte.weight", "lm_head.weight")]
    assert len(named) == 2 and {s["kind"] for s in named} == {"parameter", "gradient"}  # one storage for both names


def test_bert():
    model = transformers_model("BertForMaskedLM", num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=64)
    assert_trains_alike(ebbtide.capture, model, None, torch.optim.Adam, tokens(), steps=3)


def test_llama():
    model = transformers_model(
        "LlamaForCausalLM", hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=True,
    )
    assert_trains_alike(ebbtide.capture, model, None, momentum, tokens(), steps=3)


def test_opt_whose_layer_drop_draws_a_number_per_layer():
    model = transformers_model(
        "OPTForCausalLM", hidden_size=32, ffn_dim=64, num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=16,
        max_position_embeddings=64, do_layer_norm_before=False,
    )
    assert_trains_alike(ebbtide.capture, model, None, momentum, tokens(), steps=3)


def test_double_use_of_a_gradient_is_not_summed_in_place():
    """The gradient of a sum goes to both terms as one tensor: adding to it in place for one would spoil the other."""

    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            a = self.a(x)
            b = self.b(a)
            return (a + b) * torch.tanh(a) + a

    batch = (torch.randn(3, 4), torch.randn(3, 4))
    assert_trains_alike(ebbtide.capture, Shared(), F.mse_loss, momentum, batch, steps=3, check_writes=True)


def test_sums_in_a_users_hook_are_left_alone():
    class Hooked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            y = torch.tanh(self.layer(x))
            y.register_hook(lambda gradient: (gradient + 1.0) * gradient)  # reads the gradient after the sum
            return y

    batch = (torch.randn(3, 4), torch.randn(3, 4))
    assert_trains_alike(ebbtide.capture, Hooked(), F.mse_loss, momentum, batch, steps=2, check_writes=True)


def test_checkpointed_layers_run_twice():
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(nn.Module):
        def __init__(self, reentrant):
            super().__init__()
            self.first, self.second, self.reentrant = nn.Linear(4, 8), nn.Linear(8, 4), reentrant

        def forward(self, x):
            inner = self.first(x)
            return checkpoint(lambda t: self.second(torch.relu(t)), inner, use_reentrant=self.reentrant)

    batch = (torch.randn(3, 4), torch.randn(3, 4))
    for reentrant in (False, True):
        captured = assert_trains_alike(ebbtide.capture, Checkpointed(reentrant), F.mse_loss, momentum, batch, steps=2)
        runs = [op["phase"] for op in captured.graph["ops"] if op["kind"] == "relu"]
        assert runs == ["forward", "backward"]
