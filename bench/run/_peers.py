"""What PyTorch itself offers for a training that does not fit, on the CPU as a device of its own: each gives a function that trains
one step of a job. All run torch's eager kernels, so that ways of saving memory are compared and not code generators."""

import contextlib
import math
import time

import numpy
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

BUDGETS = (0.0, 0.1, 0.2, 0.35, 0.5, 0.7)  # of activation_memory_budget
# Whose calls are recomputed in backward, by the name of their class, as the libraries' users choose them.
BLOCKS = {"resnet50": ("Bottleneck",), "bert": ("BertLayer",), "gpt2": ("GPT2Block",), "lstm": ("LSTM",),
          "inception_v3": ("InceptionA", "InceptionB", "InceptionC", "InceptionD", "InceptionE", "BasicConv2d")}


def checkpointed(job):
    """torch.utils.checkpoint around each block; a chain of layers is cut into sqrt(n) parts."""
    model, optimizer = job.trainer()
    if job.name == "densenet121":
        for layer in model.modules():
            if hasattr(layer, "memory_efficient"):
                layer.memory_efficient = True  # torchvision's own switch
    elif job.name in BLOCKS:
        _wrap([m for m in _outermost(model, lambda m: type(m).__name__ in BLOCKS[job.name])])
    elif job.name == "unet":
        _wrap([*model.down, *model.up])
    else:
        chain = model.body if job.name == "cnn" else model.features
        parts = math.isqrt(len(chain))
        size = -(-len(chain) // parts)
        cut = nn.Sequential(*(nn.Sequential(*chain[i:i + size]) for i in range(0, len(chain), size)))
        _wrap(cut)
        setattr(model, "body" if job.name == "cnn" else "features", cut)
    return lambda: job.plain(model, optimizer)


def _outermost(module, wanted):
    for child in module.children():
        if wanted(child):
            yield child
        else:
            yield from _outermost(child, wanted)


def _wrap(modules):
    for module in modules:
        module.forward = (lambda forward: lambda *a, **k: checkpoint(forward, *a, use_reentrant=False, **k))(module.forward)


def saved_on_host(job, link):
    """torch.autograd.graph.save_on_cpu: all that autograd saves goes to the host and comes back when it is asked for; compute waits
    for each copy, which takes as long as over the link. Parameters are saved as they are, as users do who exclude them."""
    model, optimizer = job.trainer()
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}

    def pack(tensor):
        if tensor.untyped_storage().data_ptr() in parameters:
            return tensor
        host = numpy.empty(tensor.nbytes, numpy.uint8)  # not of torch's memory
        begin = time.perf_counter()
        kept = torch.from_numpy(host).view(tensor.dtype).view(tensor.shape) if tensor.nbytes else torch.empty_like(tensor)
        kept.copy_(tensor)
        _rest(begin, tensor.nbytes, link)
        return (kept,)

    def unpack(packed):
        if isinstance(packed, torch.Tensor):
            return packed
        (kept,) = packed
        begin = time.perf_counter()
        back = kept.clone()
        _rest(begin, kept.nbytes, link)
        return back

    def step():
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return job.plain(model, optimizer)

    return step


def _rest(begin, size, link):
    while time.perf_counter() - begin < size / link:
        pass


def partitioned(job, share):
    """torch.compile with the partitioner of functorch and its activation_memory_budget."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch import config
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch.fx.graph import _BoxedCodeGen

    def boxed(module, _):
        module.graph.set_codegen(_BoxedCodeGen())  # backward lets go of what it was given
        module.recompile()
        call = lambda arguments: module.forward(arguments)  # noqa: E731
        call._boxed_call = True
        return call

    model, optimizer = job.trainer()
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._BatchNorm):
            # Else it refuses to run batch norm again, as forward has changed the running statistics.
            layer.track_running_stats, layer.running_mean, layer.running_var, layer.num_batches_tracked = False, None, None, None
    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=boxed, bw_compiler=boxed, partition_fn=min_cut_rematerialization_partition)
    compiled = torch.compile(model, backend=backend)
    with config.patch(activation_memory_budget=share):
        job.plain(compiled, optimizer)
    return lambda: job.plain(compiled, optimizer)


@contextlib.contextmanager
def counted():
    """Gives a function for the most bytes that torch had allocated on the CPU since the context was entered."""
    import ebbtide

    with ebbtide.budget("1TiB", device="cpu") as budget:
        yield lambda: budget.report()["peak_bytes"]
