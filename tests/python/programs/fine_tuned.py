"""The PyTorch models that built-in models stand for, with frozen parameters, adapters or recomputed blocks, by PyTorch's
own means."""

import fnmatch
import functools

import torch
from torch.utils.checkpoint import checkpoint

from ebbtide import torch_models

PEFT_TARGETS = {"bert-base": ["query", "value"], "gpt2": ["c_attn"], "distilgpt2": ["c_attn"], "t5-small": ["q", "v"]}
LLAMA_TARGETS = ["q_proj", "v_proj"]


class LoraLinear(torch.nn.Module):
    """A linear layer (or transformers' Conv1D) with an adapter, as peft.tuners.lora.Linear computes it."""

    def __init__(self, base, rank):
        super().__init__()
        inputs, outputs = base.weight.shape if type(base).__name__ == "Conv1D" else base.weight.shape[::-1]
        self.base_layer = base
        with torch.device(base.weight.device):
            self.lora_A = torch.nn.Linear(inputs, rank, bias=False)
            self.lora_B = torch.nn.Linear(rank, outputs, bias=False)
        self.scaling = 1.0

    def forward(self, x):
        result = self.base_layer(x)
        x = x.to(self.lora_A.weight.dtype)
        return result + self.lora_B(self.lora_A(x)) * self.scaling


def freeze_parameters(model, patterns):
    """Those that match, and those of modules that match."""
    for name, parameter in model.named_parameters():
        parts = name.split(".")
        paths = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
        if any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns for path in paths):
            parameter.requires_grad_(False)


def add_adapters(model, rank, targets):
    model.requires_grad_(False)
    for path, module in list(model.named_modules()):
        if any(path == target or path.endswith("." + target) for target in targets):
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, LoraLinear(module, rank))


def recompute(model, pattern, options):
    """transformers' own blocks, or the outermost modules that match. `options` are those of checkpoint."""
    options = {"use_reentrant": False} | options
    if pattern is True:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=options)
        return
    chosen = []
    for path, module in model.named_modules():
        inside = any(path.startswith(outer + ".") for outer in chosen)
        if not inside and fnmatch.fnmatchcase(path, pattern):
            chosen.append(path)
            module.forward = functools.partial(checkpoint, module.forward, **options)
    assert chosen, pattern


def build(name, freeze=(), lora=None, lora_targets=None, checkpoint=None, checkpoint_options=None, **sizes):
    """(model, loss_fn, batch) of torch_models.build, with the options of `ebbtide inspect`."""
    model, loss_fn, _, batch = torch_models.build(name, optimizer="none", **sizes)
    if lora:
        add_adapters(model, lora, lora_targets or PEFT_TARGETS.get(name, LLAMA_TARGETS))
    freeze_parameters(model, freeze)
    if checkpoint:
        recompute(model, checkpoint, checkpoint_options or {})
    return model, loss_fn, batch


def optimizer_of(model, name):
    return torch_models.OPTIMIZERS[name]([p for p in model.parameters() if p.requires_grad])


def loss_of(model, loss_fn, batch):
    """What the model gives, and its loss."""
    if isinstance(batch, dict):
        out = model(**batch)
        return out, out.loss
    out = model(*batch[:-1])
    return out, loss_fn(out, batch[-1])
