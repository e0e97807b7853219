"""Captures twins of built-in models that are trained with frozen parameters, adapters, several batches per update or
recomputed blocks: capture_fine_tuning.py DEVICE FOLDER JSON, where JSON is {file name: arguments of twins.build, and
`freeze`, `lora`, `lora_targets`, `accumulate`, `checkpoint`, `autocast` as `ebbtide inspect` has them}."""

import fnmatch
import functools
import json
import pathlib
import sys
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from ebbtide import capture_record, capture_step, twins
from ebbtide.capture_known import KnownValues
from ebbtide.capture_layers import Layers
from ebbtide.capture_scene import Scene, nothing_else_changes, standing_in
from ebbtide.capture_trace import Tracing, rules_for
from ebbtide.optimizers import describe

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
PEFT_TARGETS = {"bert-base": ["query", "value"], "distilgpt2": ["c_attn"], "t5-small": ["q", "v"]}  # else these:
LLAMA_TARGETS = ["q_proj", "v_proj"]

# What a block draws when it is run again is what it drew before: the random state is put back.
capture_record._is_random = lambda function, arguments: False


class LoraLinear(torch.nn.Module):
    """A linear layer (or transformers' Conv1D) with an adapter, as peft.tuners.lora.Linear computes it."""

    def __init__(self, base, rank):
        super().__init__()
        rows, columns = base.weight.shape if type(base).__name__ == "Conv1D" else base.weight.shape[::-1]
        self.base_layer = base
        with torch.device(base.weight.device):
            self.lora_A = torch.nn.Linear(rows, rank, bias=False)
            self.lora_B = torch.nn.Linear(rank, columns, bias=False)
        self.scaling = 1.0

    def forward(self, x):
        result = self.base_layer(x)
        x = x.to(self.lora_A.weight.dtype)
        return result + self.lora_B(self.lora_A(x)) * self.scaling


def freeze(model, patterns):
    """Parameters that match, and those of modules that match."""
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


def recompute(model, patterns):
    """transformers' own blocks, or the outermost modules that match."""
    if patterns is True and hasattr(model, "gradient_checkpointing_enable"):
        model.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
        return
    chosen = []
    for path, module in model.named_modules():
        inside = any(path.startswith(outer + ".") for outer in chosen)
        if not inside and any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns):
            chosen.append(path)
            module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False, preserve_rng_state=False)
    assert chosen


def loss_of(model, loss_fn, batch):
    return model(**batch).loss if isinstance(batch, dict) else loss_fn(model(*batch[:-1]), batch[-1])


def capture(model, loss_fn, optimizer, batch, device, passes, autocast):
    """ebbtide.capture with several passes before the update."""
    update = describe(optimizer)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    scene = Scene(model, batch, device, mode)
    recorder, layers, known = scene.recorder, Layers(model), KnownValues(scene.recorder)
    rules = rules_for(mode)
    tracing = Tracing(recorder, scene.fakes, known, rules)
    lowered = functools.partial(torch.autocast, device, autocast, enabled=autocast is not None)
    with nothing_else_changes(), layers.followed(), known.not_called_fake(), mode, tracing, standing_in(model, scene.state):
        for _ in range(passes):
            recorder.phase, recorder.layer = "forward", layers.forward
            with rules, lowered():
                loss = loss_of(model, loss_fn, scene.batch)
            if passes > 1:
                loss = loss / passes
            recorder.phase, recorder.layer = "backward", layers.backward
            with rules, rules.backward_of(loss):
                loss.backward()
    gradients = {name: fake.grad for _, fake, name in scene.parameters.values() if fake.grad is not None}
    recorder.phase = "update"
    with torch.no_grad(), mode:
        update.record(recorder, tracing, scene.parameters, scene.declare_state)
    return capture_step._finish(model, update, scene, [loss], gradients, 0)


def capture_twin(name, device, freeze_patterns=(), lora=None, lora_targets=None, accumulate=1, checkpoint_patterns=(),
                 autocast=None, optimizer="sgd", **sizes):
    model, loss_fn, _, batch = twins.build(name, **sizes)
    if lora:
        add_adapters(model, lora, lora_targets or PEFT_TARGETS.get(name, LLAMA_TARGETS))
    freeze(model, freeze_patterns)
    if checkpoint_patterns:
        recompute(model, checkpoint_patterns)
    trained = twins.OPTIMIZERS[optimizer]([p for p in model.parameters() if p.requires_grad])
    return capture(model, loss_fn, trained, batch, device, accumulate, DTYPES.get(autocast))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for file, arguments in json.loads(sys.argv[3]).items():
        renamed = {"freeze": "freeze_patterns", "checkpoint": "checkpoint_patterns"}
        arguments = {renamed.get(key, key): value for key, value in arguments.items()}
        capture_twin(device=sys.argv[1], **arguments).save(pathlib.Path(sys.argv[2]) / file)
