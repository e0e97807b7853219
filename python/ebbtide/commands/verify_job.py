"""python -m ebbtide.commands.verify_job MODEL BATCH OPTIMIZER: one plain training of a built-in model on the CUDA device, and what it took, as one
line of JSON. python -m ebbtide.commands.verify_job --device: what device there is."""

import contextlib
import ctypes
import json
import statistics
import sys

STEPS = 3  # the first makes gradients and optimizer state
TIMED = 7


def on_phantom():
    return hasattr(ctypes.CDLL(None), "ebbtide_phantom_begin")


def tell_that_nothing_is_packed():
    """Where kernels are skipped, zeros are read back. transformers reads one value: whether each row of a batch is one
    sequence. These are, so it shall see that, after the same allocations; else it would build masks for packed ones."""
    import transformers.masking_utils as masks

    look = masks.find_packed_sequence_indices

    def answer(position_ids):
        look(position_ids)

    masks.find_packed_sequence_indices = answer


def train(model, loss_fn, optimizer, batch, steps, autocast=contextlib.nullcontext, zero_grad="start", after=lambda: None):
    """As users write it: results of one iteration are referenced until those of the next take their names."""
    for _ in range(steps):
        if zero_grad == "start":
            optimizer.zero_grad()
        if isinstance(batch, dict):
            inputs = {name: tensor.to("cuda") for name, tensor in batch.items()}
            with autocast():
                out = model(**inputs)
            loss = out.loss
        else:
            x, target = (tensor.to("cuda") for tensor in batch)
            with autocast():
                out = model(x)
                loss = loss_fn(out, target)
        if zero_grad == "before-backward":
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if zero_grad == "end":
            optimizer.zero_grad()
        after()


def _device():
    import torch

    if not torch.cuda.is_available():
        return {}
    return {"product": torch.cuda.get_device_name(0), "memory_bytes": torch.cuda.get_device_properties(0).total_memory}


def _measure(name, size, optimizer):
    import torch

    from .. import torch_models

    if on_phantom() and name in torch_models.TRANSFORMERS:
        tell_that_nothing_is_packed()
    torch.manual_seed(0)
    model, loss_fn, _, batch = torch_models.build(name, size, optimizer="none", device="cpu")
    free, total = torch.cuda.mem_get_info()
    before = total - free  # others', and this process's context, which is there by now
    model.to("cuda")
    optimizer = torch_models.OPTIMIZERS[optimizer](model.parameters())
    moments = [torch.cuda.Event(enable_timing=True)]

    def mark():
        moments[-1].record()
        moments.append(torch.cuda.Event(enable_timing=True))

    train(model, loss_fn, optimizer, batch, STEPS + TIMED, after=mark)
    torch.cuda.synchronize()
    times = [a.elapsed_time(b) for a, b in zip(moments[STEPS:], moments[STEPS + 1:-1])]
    free, total = torch.cuda.mem_get_info()
    return {"peak_allocated_bytes": torch.cuda.max_memory_allocated(), "peak_reserved_bytes": torch.cuda.max_memory_reserved(),
            "used_bytes": total - free - before, "step_ns": round(statistics.median(times) * 1e6)}


if __name__ == "__main__":
    print(json.dumps(_device() if sys.argv[1] == "--device" else _measure(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
