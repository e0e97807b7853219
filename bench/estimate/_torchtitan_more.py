"""What rows of torchtitan.csv ask for that a release of torchtitan does not have: imported by torchtitan itself, by its flag
`--experimental.custom_import`. EBBTIDE_MORE has the words, with commas between."""

import os

import torch
import torch.distributed._functional_collectives as functional
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision, ShardingStrategy
from torchtitan.components.loss import cross_entropy_loss
from torchtitan.models import llama3
from torchtitan.models.llama3.infra import parallelize
from torchtitan.protocols.model_converter import register_model_converter
from torchtitan.protocols.train_spec import get_train_spec

WORDS = set(os.environ.get("EBBTIDE_MORE", "").split(","))
CHUNKS = 8


def llama2_7b():
    """A flavour with the sizes of Llama 2 7B. Its words are the tokenizer's."""
    arguments = type(llama3.llama3_configs["8B"])
    llama3.llama3_configs["llama2-7b"] = arguments(dim=4096, n_layers=32, n_heads=32, rope_theta=10000)


def fsdp1():
    """FullyShardedDataParallel in the place of fully_shard: every block, and the rest."""

    def apply(model, dp_mesh, param_dtype, reduce_dtype, **_):
        options = dict(device_mesh=dp_mesh, mixed_precision=MixedPrecision(param_dtype=param_dtype, reduce_dtype=reduce_dtype),
                       use_orig_params=True, sharding_strategy=ShardingStrategy.FULL_SHARD, device_id=torch.cuda.current_device(),
                       param_init_fn=lambda module: module.to_empty(device="cuda", recurse=False))
        for name, block in model.layers.items():
            model.layers[name] = FullyShardedDataParallel(block, **options)
        wrapped = FullyShardedDataParallel(model, **options)
        # The shards are on the device by now: what follows is for parameters that are not.
        wrapped.to_empty = lambda **_: wrapped
        wrapped.init_weights = lambda **_: None
        return wrapped

    parallelize.apply_fsdp = apply
    whole = parallelize.parallelize_llama

    def parallelized(model, *words):
        shards = []
        apply_to = parallelize.apply_fsdp
        parallelize.apply_fsdp = lambda *given, **options: shards.append(apply_to(*given, **options))
        try:
            whole(model, *words)
        finally:
            parallelize.apply_fsdp = apply_to
        return shards[0]

    get_train_spec("llama3").parallelize_fn = parallelized


class Norm(torch.nn.Module):
    """RMSNorm of several operators, in float32."""

    def __init__(self, size, eps):
        super().__init__()
        self.eps, self.weight = eps, torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        whole = x.float()
        return (whole * torch.rsqrt((whole * whole).mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight

    def reset_parameters(self):
        torch.nn.init.ones_(self.weight)


class OwnNorms:
    """Norms as torchtitan had them up to March 2025: a converter of models."""

    def __init__(self, *_):
        pass

    def convert(self, model):
        for name, norm in list(model.named_modules()):
            if isinstance(norm, torch.nn.RMSNorm):
                parent, _, last = name.rpartition(".")
                setattr(model.get_submodule(parent), last, Norm(norm.normalized_shape, norm.eps))

    def post_optimizer_hook(self, *_):
        pass


def loss_is(loss):
    get_train_spec("llama3").build_loss_fn = lambda *_, **__: loss


def kept_scores():
    """The trainer of early 2024: scores in float32 lie until the next step has its own."""
    kept = []

    def loss(scores, labels):
        kept[:] = [scores.float()]
        return cross_entropy_loss(kept[0], labels)

    loss_is(loss)


def chunked_loss():
    """Cross-entropy of the sequence's parts one by one, each in float32."""
    loss_is(lambda scores, labels: sum(map(cross_entropy_loss, scores.chunk(CHUNKS, 1), labels.chunk(CHUNKS, 1))) / CHUNKS)


def recorded_streams():
    """torch up to March 2025: its NCCL recorded its stream on what collectives that do not block read and wrote, those of tensor parallel among them, so that
    the allocator gave their memory to others only when the GPU had come that far (pytorch's pull request 150398 ended it). In code that is not compiled."""
    streams = {}

    def recording(collective):
        def recorded(tensor, *given, **options):
            result = collective(tensor, *given, **options)
            stream = streams.setdefault(torch.cuda.current_device(), torch.cuda.Stream())
            stream.wait_stream(torch.cuda.current_stream())
            for used in (tensor, getattr(result, "elem", result)):
                if used.is_cuda:
                    used.record_stream(stream)
            return result

        return recorded

    for name in ("all_reduce", "all_gather_single", "reduce_scatter_single", "all_to_all_single"):
        setattr(functional, name, recording(getattr(functional, name)))


CHANGES = {"llama2-7b": llama2_7b, "fsdp1": fsdp1, "kept-scores": kept_scores, "chunked-loss": chunked_loss,
           "recorded-streams": recorded_streams,
           "plain-loss": lambda: loss_is(cross_entropy_loss)}  # where blocks alone are compiled
register_model_converter(OwnNorms, "own_norms")
for word, change in CHANGES.items():
    if word in WORDS:
        change()
