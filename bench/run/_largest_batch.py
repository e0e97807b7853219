"""The largest batch that trains in a pool of 1 GiB, plain and with a plan; each found is then run."""

import time

import torch
from torch.nn import functional as F

import ebbtide
from ebbtide import BudgetError, torch_models
from ebbtide.capture.step import CaptureOptions, capture_step
from ebbtide.step.plan import PlanOptions, make_plan
from ebbtide.step.profile import profile

GIB = 2**30
LINK = 4e9


def _images(model, size, classes=10):
    def build(batch):
        return model, F.cross_entropy, (torch.randn(batch, 3, size, size), torch.randint(0, classes, (batch,)))

    return build


def resnet50():
    import torchvision

    return _images(torchvision.models.resnet50(weights=None, num_classes=10), 128)


def unet():
    model = torch_models.UNet(2, (8, 16, 32, 64))  # narrow, so that a CPU is done soon; its activations are large all the same
    return lambda batch: (model, F.cross_entropy, (torch.randn(batch, 3, 256, 256), torch.randint(0, 2, (batch, 256, 256))))


def bert():
    import transformers

    config = transformers.BertConfig(vocab_size=2000, num_hidden_layers=6, hidden_size=256, num_attention_heads=4, intermediate_size=1024)
    model = transformers.BertForMaskedLM(config).train()

    def build(batch):
        tokens = torch.randint(5, 2000, (batch, 128))
        return model, None, {"input_ids": tokens, "labels": tokens}

    return build


def largest(build, policy, start):
    """By planning; the workspaces of each batch are measured."""
    model = build(1)[0]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def fits(batch):
        _, loss_fn, data = build(batch)
        graph = profile(capture_step(model, loss_fn, optimizer, data, CaptureOptions(device="cpu")).graph, runs=1, keep=False).graph
        try:
            make_plan(graph, PlanOptions(GIB, policy, LINK))
        except BudgetError:
            return False
        return True

    low, high = 0, start
    while fits(high):
        low, high = high, high * 2
    while high - low > max(1, low // 8):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def largest_batches(names):
    print(f"{'model':12} {'plain':>6} {'with a plan':>12} {'ratio':>6} {'peak':>10} {'time per sample':>16}")
    best = 0.0
    for make in (resnet50, bert, unet):
        if make.__name__ not in names:
            continue
        torch.manual_seed(0)
        build = make()
        plain = largest(build, "none", 4)
        planned = largest(build, "home", 2 * plain)
        rows = []
        for batch, policy in ((plain, "none"), (planned, "home")):
            model, loss_fn, data = build(batch)
            step = ebbtide.step(model, loss_fn, torch.optim.SGD(model.parameters(), lr=0.01), data, budget=GIB, policy=policy, measure=True)
            for _ in range(2):
                started = time.perf_counter()
                step(data) if isinstance(data, dict) else step(*data)
                seconds = time.perf_counter() - started
            rows.append((step.report().to_dict()["peak_bytes"], seconds / batch))
            step.close()
            del step
        best = max(best, planned / plain)
        print(f"{make.__name__:12} {plain:6} {planned:12} {planned / plain:6.2f} {rows[1][0] / 2**20:6.1f} MiB "
              f"{rows[1][1] / rows[0][1]:13.2f}x", flush=True)
    print(f"best {best:.2f}: at least 2.8 is wanted")
    return best >= 2.8
