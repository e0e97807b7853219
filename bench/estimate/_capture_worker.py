"""Captures the training jobs that it is told of, one JSON object a line, and answers each with a line: {} or {"error": ...}.

    python bench/estimate/_capture_worker.py < jobs      (under the phantom GPU, so that CUDA's kernels are those captured)

A job is {"file": where the graph goes, "kind": "xmem" | "timm" | "layers", "batch": N, "optimizer": NAME, ...}; with "doubled_file", where the same step
at twice the batch goes."""

import contextlib
import gc
import json
import os
import sys
import warnings

import _xmem_job as xmem
import torch
import torch._dynamo  # now: its first import fails where a default device is set
from _doubled import save_doubled
from _uninitialised import Uninitialised
from torch import nn

from ebbtide import CaptureError, torch_models
from ebbtide.capture.errors import one_line
from ebbtide.capture.known_values import KnownValues
from ebbtide.capture.step import CaptureOptions, capture_step

# By the names of files of measurements where they are not those of classes of torch.nn; each is given the width before it.
LAYERS = {
    "batch_normalization": nn.BatchNorm1d,
    "dropout": lambda width: nn.Dropout(),
    "Softmax": lambda width: nn.Softmax(dim=1),
}


def made(build):
    """What `build` makes, on torch's meta device where its code can do with that, else in memory that is never filled."""
    try:
        with torch.device("meta"):
            return build()
    except Exception:
        with Uninitialised():
            return build()


def of_xmem(job):
    """As bench/estimate/_xmem_job.py runs it; of what that does not know, a model of timm or a built-in one."""
    return found(job, (of_torchvision, of_transformers, of_timm_library, of_built_in), xmem.IMAGE)


def of_timm(job):
    """On images of the size that the model's own configuration names."""
    return found(job, (of_timm_library, of_torchvision, of_transformers, of_built_in), None)


def found(job, libraries, image):
    """(model, loss, batch) by the first library that has the name."""
    for library in libraries:
        parts = library(job["model"], job["batch"], image, job.get("seq_len", 128))
        if parts is not None:
            return parts
    raise CaptureError(f"{job['model']}: expected a model of torchvision or timm, a class of transformers or a built-in model")


def of_torchvision(name, batch, image, _):
    model = made(lambda: xmem.image_model(name))
    if model is None or type(model).__name__ == "Inception3":  # whose two results the built-in one adds up
        return None
    return model, nn.functional.cross_entropy, (images_of(batch, image or 224), labels_of(batch))


def of_transformers(name, batch, _, seq_len):
    if xmem.language_class(name) is None:  # imported before a device is set
        return None
    model = made(lambda: xmem.language_model(name))
    return model, None, words_for(model, batch, seq_len)


def of_timm_library(name, batch, image, _):
    try:
        import timm
    except ImportError:
        return None
    if not timm.is_model(name) and name not in deprecated_names():
        return None
    model = made(lambda: timm.create_model(name))
    own = model.default_cfg["input_size"][-1]
    size = own if image is None or model.default_cfg.get("fixed_input_size") else image
    return model, nn.functional.cross_entropy, (images_of(batch, size), labels_of(batch))


def deprecated_names():
    from timm.models import _registry

    return {name for names in getattr(_registry, "_module_to_deprecated_models", {}).values() for name in names}


def of_built_in(name, batch, *_):
    """Those that no library has, or that not every size of image fits: at their own sizes."""
    if name.lower() not in torch_models.NAMES:
        return None
    model, loss_fn, _, inputs = torch_models.build(name.lower(), batch, optimizer="none")
    return model, loss_fn, inputs


class Padded:
    """Some versions of transformers look whether the attention mask lets all through, which a capture cannot. Texts of
    one batch differ in length, so it does not; that of a text alone does."""

    def __init__(self, batch):
        self._lets_all_through, self._number = batch == 1, KnownValues.number

    def __enter__(self):
        def number(known, fake):
            value = self._number(known, fake)
            return self._lets_all_through if value is None and fake.dtype == torch.bool else value

        KnownValues.number = number

    def __exit__(self, *_):
        KnownValues.number = self._number


def words_for(model, batch, seq_len):
    """What a class of transformers is trained with: by what it says it reads, and by whether it judges words or texts."""
    if model.main_input_name == "pixel_values":
        return {"pixel_values": images_of(batch, model.config.image_size), "labels": labels_of(batch)}
    tokens = {name: torch.empty(batch, seq_len, dtype=torch.int64, device="meta") for name in ("input_ids", "attention_mask", "labels")}
    return tokens | ({"labels": labels_of(batch)} if type(model).__name__.endswith("SequenceClassification") else {})


def images_of(batch, size):
    return torch.empty(batch, 3, size, size, device="meta")


def labels_of(batch):
    return torch.empty(batch, dtype=torch.int64, device="meta")


def of_layers(job):
    """[[name, width], ...] one after the other."""
    def build():
        layers, width = [], job["inputs"]
        for name, to in job["layers"]:
            if name == "linear":
                layers.append(nn.Linear(width, to))
            elif name in LAYERS:
                layers.append(LAYERS[name](to))
            else:
                kind = getattr(nn, name, None)
                if kind is None:
                    raise CaptureError(f"{name}: expected linear, {', '.join(LAYERS)} or a class of torch.nn")
                layers.append(kind(to) if name.startswith("BatchNorm") else kind())
            width = to
        return nn.Sequential(*layers)

    inputs = torch.empty(job["batch"], job["inputs"], device="meta")
    if job["layers"][-1][1] == 1:  # one output: yes or no
        return made(build), nn.functional.binary_cross_entropy_with_logits, (inputs, torch.empty(job["batch"], 1, device="meta"))
    return made(build), nn.functional.cross_entropy, (inputs, labels_of(job["batch"]))


KINDS = {"xmem": of_xmem, "timm": of_timm, "layers": of_layers}


def optimizer_of(name, model):
    parameters = model.parameters()
    if name == "timm":  # that of its program: SGD with momentum and weight decay, which vectors are spared
        from timm.optim import create_optimizer_v2

        return create_optimizer_v2(model, opt="sgd", lr=0.001, momentum=0.9, weight_decay=2e-5)
    if name == "momentum":
        return torch.optim.SGD(parameters, lr=0.001, momentum=0.9)
    if not hasattr(torch.optim, name):
        raise CaptureError(f"{name}: expected an optimizer of torch.optim")
    return getattr(torch.optim, name)(parameters, lr=0.001)


def capture(job):
    model, loss_fn, batch = KINDS[job["kind"]](job)
    model.train()
    optimizer = optimizer_of(job["optimizer"], model)
    with Padded(job["batch"]) if isinstance(batch, dict) else contextlib.nullcontext():
        step = capture_step(model, loss_fn, optimizer, batch, CaptureOptions(device="cuda", keep_outputs=True))
    step.graph["name"] = job["model"]
    step.graph["meta"]["input"] = "text" if isinstance(batch, dict) and "input_ids" in batch else "images"
    step.save(job["file"])
    if "doubled_file" in job:
        save_doubled(job["file"], job["doubled_file"], job["batch"])


def main():
    warnings.simplefilter("ignore")
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        answer = {}
        try:
            capture(json.loads(line))
        except (Exception, SystemExit) as error:
            answer = {"error": str(error) if isinstance(error, CaptureError) else f"{type(error).__name__}: {one_line(error)}"}
        print(json.dumps(answer), file=answers, flush=True)
        gc.collect()


if __name__ == "__main__":
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    main()
