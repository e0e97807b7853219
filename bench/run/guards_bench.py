"""What it costs to ask, before each step, whether all that the user's Python code read is as it was.

    build/python bench/run/guards_bench.py [--models resnet50,gpt2]

One thread. For a ResNet-50 and a GPT-2 of 12 layers: a whole step, without a plan; all that ebbtide.step does in it before the engine begins
(the key of the batch with the contexts around it, guards, the optimizer's structure); and the time that torch.compile's own guards take for the same
model and loss, as Dynamo reports it. Fails where the guards take 1 % of a step or more.
"""

import argparse
import statistics
import sys
import tempfile
import time

LIMIT = 0.01
CHECKS, STEPS = 200, 5


def build(name):
    """(model, loss_fn, batch) of the real architecture, with a batch that is small for it."""
    import torch

    torch.manual_seed(0)
    if name == "resnet50":
        import torchvision

        return torchvision.models.resnet50(num_classes=1000), torch.nn.functional.cross_entropy, (torch.randn(4, 3, 224, 224), torch.randint(0, 1000, (4,)))
    import transformers

    transformers.logging.set_verbosity_error()
    config = transformers.GPT2Config(n_layer=12, n_embd=768, n_head=12, vocab_size=8000, n_positions=128, bos_token_id=0, eos_token_id=0, use_cache=False)
    tokens = torch.randint(0, 8000, (2, 128))
    model = transformers.GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"
    return model, None, {"input_ids": tokens, "labels": tokens}


def median_of(call, times):
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def dynamos(model, loss_fn, batch):
    """Guards and seconds, as Dynamo tells them after it has compiled the forward pass and the loss, without graph breaks."""
    import torch
    from torch._dynamo.utils import get_compilation_metrics

    torch._dynamo.reset()
    before = len(get_compilation_metrics())

    def forward(batch):
        return model(**batch).loss if loss_fn is None else loss_fn(model(batch[0]), batch[1])

    with torch.enable_grad():
        torch.compile(forward, backend="eager", fullgraph=True)(batch)
    told = list(get_compilation_metrics())[before:]
    return sum(each.guard_count or 0 for each in told), sum(each.guard_latency_us or 0 for each in told) * 1e-6


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="resnet50,gpt2")
    options = parser.parse_args()

    import os

    os.environ["EBBTIDE_CACHE"] = tempfile.mkdtemp(prefix="guards-")
    import torch
    from torch.utils._pytree import tree_flatten_with_path

    import ebbtide

    torch.set_num_threads(1)
    failed = False
    print(f"{'model':10}{'step':>12}{'guards':>9}{'checked':>12}{'of a step':>11}{'Dynamo':>9}{'checked':>12}{'ours / its':>12}")
    for name in options.models.split(","):
        model, loss_fn, batch = build(name)
        step = ebbtide.step(model, loss_fn, torch.optim.Adam(model.parameters()), batch, policy="none", measure=False)
        prepared = next(iter(step._plans.values()))
        given = step._batch_of((batch,), {})
        leaves, shape = tree_flatten_with_path(given)
        taken = median_of(lambda batch=batch, step=step: step(batch), STEPS)
        checked = median_of(lambda step=step, all_of=(given, leaves, shape): step._prepared_for(*all_of), CHECKS)
        count, latency = dynamos(model, loss_fn, batch)
        failed |= checked / taken >= LIMIT or next(iter(step._plans.values())) is not prepared
        print(f"{name:10}{taken * 1e3:9.1f} ms{len(prepared.guards):9d}{checked * 1e3:9.3f} ms{checked / taken:10.3%}{count:9d}{latency * 1e3:9.3f} ms"
              f"{checked / max(latency, 1e-9):12.1f}", flush=True)
        step.close()
    print(f"guards take less than {LIMIT:.0%} of a step: {'no' if failed else 'yes'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
