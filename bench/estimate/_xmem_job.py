"""One training as the measurements of xMem were made: four batches of random shape-true data through a torchvision or
transformers model on the CUDA device, with the optimizer's defaults. A plain program: nothing in it knows of the phantom.

    python bench/estimate/_xmem_job.py MODEL OPTIMIZER BATCH [--zero-grad start|before-backward|end] [--seq-len N]
        [--no-cublas-workspace]

Weights are left as the allocator gives them, so that a model of billions takes no host memory before it is moved."""

import argparse
import os

import torch
from _uninitialised import Uninitialised
from torch import nn

IMAGE = 86
BATCHES = 4
CLASSES = {"mobilenet_v3_small": 10, "mobilenet_v3_large": 10, "mnasnet1_0": 10}
# The file's own spelling where lower case with underscores is not the library's name.
SPELLINGS = {
    "mobenetv3small": "mobilenet_v3_small", "mobenetv3large": "mobilenet_v3_large", "mnasnet": "mnasnet1_0",
    "gemma-2-2b-it": "gemma-2-2b", "llama-3.2-3b-instruct": "llama-3.2-3b",
}


def image_model(name):
    import torchvision

    names = {n.replace("_", ""): n for n in torchvision.models.list_models()}
    key = name.lower().replace("_", "")
    found = SPELLINGS.get(key) or names.get(key)
    if found is None:
        return None
    return torchvision.models.get_model(found, weights=None, num_classes=CLASSES.get(found, 1000))


def language_class(name):
    """The class of transformers, and what its configuration sets; None: it has no such class."""
    import transformers

    from ebbtide import torch_models

    key = name.split("/")[-1].lower()
    known = SPELLINGS.get(key, key)
    class_name, options = torch_models.TRANSFORMERS.get(known) or (name, {})
    model_class = getattr(transformers, class_name, None)
    return None if model_class is None else (model_class, options)


def language_model(name):
    found = language_class(name)
    if found is None:
        return None
    model_class, options = found
    config = model_class.config_class(**options)
    config._attn_implementation = "sdpa" if model_class._supports_sdpa else "eager"
    return model_class(config)


def optimizer_of(name, parameters):
    if name == "Adafactor":
        import transformers

        return transformers.Adafactor(parameters, lr=0.001, relative_step=False)
    return getattr(torch.optim, name)(parameters, lr=0.001)


def image_step(model, images, labels):
    out = model(images)
    return out, nn.functional.cross_entropy(out, labels)


def train(model, optimizer, batch, step, zero_grad):
    """As users write it: results of one iteration are referenced until those of the next take their names."""
    for _ in range(BATCHES):
        if zero_grad == "start":
            optimizer.zero_grad()
        on_device = [t.to("cuda") for t in batch]
        out, loss = step(model, *on_device)
        if zero_grad == "before-backward":
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if zero_grad == "end":
            optimizer.zero_grad()


def language_step(model, tokens, mask, labels):
    out = model(input_ids=tokens, attention_mask=mask, labels=labels)
    return out, out.loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("optimizer")
    parser.add_argument("batch", type=int)
    parser.add_argument("--zero-grad", choices=("start", "before-backward", "end"), default="start")
    parser.add_argument("--seq-len", type=int, default=128)
    parser.add_argument("--no-cublas-workspace", action="store_true")
    options = parser.parse_args()
    if options.no_cublas_workspace:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":0:0"
    torch.cuda.set_per_process_memory_fraction(1.0)
    with Uninitialised():
        model = image_model(options.model)
        images = model is not None
        model = model if images else language_model(options.model)
    if model is None:
        raise SystemExit(f"{options.model}: expected a model of torchvision or a class of transformers")
    model.train()
    if images:
        model.to("cuda")
        optimizer = optimizer_of(options.optimizer, model.parameters())
        # The meter of these rows took its first reading about here, without a pause before; of the others, two seconds
        # before the model was moved.
        print("first reading", torch.cuda.memory_reserved())
        batch = [torch.zeros(options.batch, 3, IMAGE, IMAGE), torch.zeros(options.batch, dtype=torch.int64)]
        train(model, optimizer, batch, image_step, options.zero_grad)
    else:
        optimizer = optimizer_of(options.optimizer, model.parameters())
        model.to("cuda")
        batch = [torch.zeros(options.batch, options.seq_len, dtype=torch.int64) for _ in range(3)]
        train(model, optimizer, batch, language_step, options.zero_grad)


if __name__ == "__main__":
    main()
