"""The built-in models as PyTorch has them: torchvision's, timm's and transformers' own modules, built from
configurations on torch's meta device, so that nothing is downloaded and no memory is taken."""

import difflib

import torch
from torch import nn
from torch.nn import functional as F

from .errors import CaptureError

TORCHVISION = (
    "alexnet", "vgg11", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "inception_v3",
    "densenet121", "densenet169", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large", "mnasnet1_0",
    "efficientnet_b0", "regnet_x_400mf", "regnet_y_400mf", "convnext_tiny", "convnext_base",
)
TIMM = ("inception_v4", "xception")

_GPT2 = {"vocab_size": 50257, "n_positions": 1024}
_LLAMA = {"vocab_size": 128256, "intermediate_size": 8192, "num_key_value_heads": 8, "tie_word_embeddings": True,
          "max_position_embeddings": 131072}
# name: (transformers' model class, configuration; all else is the class's default)
TRANSFORMERS = {
    "bert-base": ("BertForMaskedLM", {}),
    "bert-large": ("BertForMaskedLM", {
        "num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}),
    "gpt2": ("GPT2LMHeadModel", _GPT2 | {"n_layer": 12, "n_embd": 768, "n_head": 12}),
    "gpt2-medium": ("GPT2LMHeadModel", _GPT2 | {"n_layer": 24, "n_embd": 1024, "n_head": 16}),
    "gpt2-large": ("GPT2LMHeadModel", _GPT2 | {"n_layer": 36, "n_embd": 1280, "n_head": 20}),
    "gpt2-xl": ("GPT2LMHeadModel", _GPT2 | {"n_layer": 48, "n_embd": 1600, "n_head": 25}),
    "distilgpt2": ("GPT2LMHeadModel", _GPT2 | {"n_layer": 6, "n_embd": 768, "n_head": 12}),
    "gpt-neo-125m": ("GPTNeoForCausalLM", {
        "num_layers": 12, "hidden_size": 768, "num_heads": 12, "max_position_embeddings": 2048, "vocab_size": 50257,
        "attention_types": [[["global", "local"], 6]], "window_size": 256}),
    "opt-125m": ("OPTForCausalLM", {
        "num_hidden_layers": 12, "hidden_size": 768, "word_embed_proj_dim": 768, "ffn_dim": 3072, "num_attention_heads": 12,
        "vocab_size": 50272, "max_position_embeddings": 2048}),
    "opt-350m": ("OPTForCausalLM", {
        "num_hidden_layers": 24, "hidden_size": 1024, "word_embed_proj_dim": 512, "ffn_dim": 4096, "num_attention_heads": 16,
        "vocab_size": 50272, "max_position_embeddings": 2048, "do_layer_norm_before": False}),
    "cerebras-gpt-111m": ("GPT2LMHeadModel", {
        "vocab_size": 50257, "n_positions": 2048, "n_layer": 10, "n_embd": 768, "n_head": 12, "n_inner": 3072,
        "activation_function": "gelu", "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}),
    "t5-small": ("T5ForConditionalGeneration", {
        "d_model": 512, "d_ff": 2048, "num_layers": 6, "num_heads": 8, "d_kv": 64, "vocab_size": 32128,
        "decoder_start_token_id": 0}),
    "t5-base": ("T5ForConditionalGeneration", {
        "d_model": 768, "d_ff": 3072, "num_layers": 12, "num_heads": 12, "d_kv": 64, "vocab_size": 32128,
        "decoder_start_token_id": 0}),
    "llama-3.2-1b": ("LlamaForCausalLM", _LLAMA | {
        "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "head_dim": 64}),
    "llama-3.2-3b": ("LlamaForCausalLM", _LLAMA | {
        "hidden_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 24, "head_dim": 128}),
    "qwen3-4b": ("Qwen3ForCausalLM", {
        "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32,
        "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True}),
    "gemma-2-2b": ("Gemma2ForCausalLM", {
        "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 256000, "tie_word_embeddings": True}),
    "deepseek-r1-distill-qwen-1.5b": ("Qwen2ForCausalLM", {
        "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12,
        "num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": False}),
}
_OURS = ("unet", "lstm", "mlp")
NAMES = TORCHVISION + TIMM + _OURS + tuple(TRANSFORMERS)

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.01),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "adafactor": torch.optim.Adafactor,
    "none": lambda p: None,
}


def build(name, batch_size=32, image_size=None, seq_len=None, classes=None, widths=(), optimizer="sgd", device="meta",
          inference=False):
    """(model, loss_fn, optimizer, batch) of a built-in model, as ebbtide.capture takes them. The model trains, with the
    dropout of its configuration; with `inference` it does not, and there are neither labels nor loss. On a real
    `device` the weights are torch's random ones; the batch's contents are undefined."""
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, 3)
        raise CaptureError(f"{name}: no such built-in model" + (f"; nearest: {', '.join(near)}" if near else ""))
    if optimizer not in OPTIMIZERS:
        raise CaptureError(f"--optimizer {optimizer}: expected one of {', '.join(OPTIMIZERS)}")
    with torch.device(device):
        if name in TRANSFORMERS:
            model, loss_fn, batch = _language_model(name, batch_size, seq_len)
        elif name in _OURS:
            model, loss_fn, batch = _ours(name, batch_size, image_size, seq_len, classes, widths)
        else:
            model, loss_fn, batch = _image_classifier(name, batch_size, image_size, classes)
        if inference:
            return model.eval(), None, None, _without_labels(name, batch)
        model.train()
        return model, loss_fn, OPTIMIZERS[optimizer](model.parameters()), batch


def _without_labels(name, batch):
    if not isinstance(batch, dict):
        return batch[:-1]
    tokens = batch["input_ids"]
    return {"input_ids": tokens} | ({"decoder_input_ids": torch.empty_like(tokens)} if name.startswith("t5") else {})


def _image_classifier(name, batch_size, image_size, classes):
    classes = classes or 1000
    loss_fn = F.cross_entropy
    if name in TIMM:
        import timm

        model = timm.create_model(name, num_classes=classes)
    else:
        import torchvision

        options = {"init_weights": False, "aux_logits": True} if name == "inception_v3" else {}
        # RegNet works out its widths with tensors; it is small.
        here = torch.get_default_device()
        with torch.device("cpu" if name.startswith("regnet") else here):
            model = torchvision.models.get_model(name, weights=None, num_classes=classes, **options).to(here)
        loss_fn = _inception_loss if name == "inception_v3" else F.cross_entropy
    size = image_size or (299 if name.startswith(("inception", "xception")) else 224)
    return model, loss_fn, (torch.empty(batch_size, 3, size, size), torch.empty(batch_size, dtype=torch.int64))


def _inception_loss(out, target):
    """The auxiliary classifier counts for 0.4, as the model's users have it."""
    return F.cross_entropy(out.logits, target) + 0.4 * F.cross_entropy(out.aux_logits, target)


def _language_model(name, batch_size, seq_len):
    import transformers

    class_name, options = TRANSFORMERS[name]
    model_class = getattr(transformers, class_name)
    config = model_class.config_class(use_cache=False, **options)
    config._attn_implementation = "sdpa" if model_class._supports_sdpa else "eager"
    tokens = torch.empty(batch_size, seq_len or (128 if name.startswith("t5") else 512), dtype=torch.int64)
    return model_class(config), None, {"input_ids": tokens, "labels": torch.empty_like(tokens)}


def _ours(name, batch_size, image_size, seq_len, classes, widths):
    if name == "unet":
        size = image_size or 512
        target = torch.empty(batch_size, size, size, dtype=torch.int64)
        return UNet(classes or 2), F.cross_entropy, (torch.empty(batch_size, 3, size, size), target)
    if name == "lstm":
        tokens = torch.empty(batch_size, seq_len or 35, dtype=torch.int64)
        return TokenLSTM(classes or 10000), _token_loss, (tokens, torch.empty_like(tokens))
    widths = list(widths) or [784, 512, 512, classes or 10]
    if len(widths) < 2:
        raise CaptureError("mlp: expected at least two widths, input and output")
    batch = torch.empty(batch_size, widths[0]), torch.empty(batch_size, dtype=torch.int64)
    return multilayer_perceptron(widths), F.cross_entropy, batch


def multilayer_perceptron(widths):
    """Linear layers of the widths given, ReLU between."""
    layers = []
    for place, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        layers += [nn.ReLU()] * (place > 0) + [nn.Linear(inputs, outputs)]
    return nn.Sequential(*layers)


class TokenLSTM(nn.Module):
    """A language model: embedding, two layers of LSTM with dropout between, and the words' scores."""

    def __init__(self, words, width=650):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, dropout=0.5, batch_first=True)
        self.output = nn.Linear(width, words)

    def forward(self, tokens):
        return self.output(self.lstm(self.embedding(tokens))[0])


def _token_loss(scores, target):
    return F.cross_entropy(scores.flatten(0, 1), target.flatten())


class UNet(nn.Module):
    """Five levels of two (3x3 convolution, batch norm, ReLU) blocks, skip connections by concatenation."""

    def __init__(self, classes, widths=(64, 128, 256, 512, 1024)):
        super().__init__()
        self.down = nn.ModuleList(_double_block(i, o) for i, o in zip((3, *widths), widths))
        self.pool = nn.MaxPool2d(2)
        rising = widths[::-1]
        self.enlarge = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, stride=2) for i, o in zip(rising, rising[1:]))
        self.up = nn.ModuleList(_double_block(i, o) for i, o in zip(rising, rising[1:]))
        self.output = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        skips = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else self.pool(x))
            skips.append(x)
        for enlarge, block, skip in zip(self.enlarge, self.up, skips[-2::-1]):
            x = block(torch.cat([skip, enlarge(x)], dim=1))
        return self.output(x)


def _double_block(inputs, outputs):
    layers = []
    for i in (inputs, outputs):
        layers += [nn.Conv2d(i, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)
