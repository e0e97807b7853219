"""A training for bench/parallel/ranks_bench.py: `step` for captures, and as a program one rank of it under torchrun.

    torchrun --nproc-per-node N _ranks_job.py ddp|fsdp|tp FILE: three iterations; rank 0 writes its peaks to FILE.
`decoder` is the step of `tp`: its modules are named as those of transformers' decoders."""

import contextlib
import json
import sys

import torch
from torch import nn

WIDTH, BLOCKS, WORDS, BATCH, LENGTH, HEAD = 1024, 8, 8000, 4, 256, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (proj(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for proj in (self.q_proj, self.k_proj, self.v_proj))
        return self.o_proj(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.up_proj, self.down_proj = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.gelu(self.up_proj(x)))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.self_attn, self.norm2, self.mlp = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), Mlp()

    def forward(self, x):
        x = x + self.self_attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens, self.norm = nn.Embedding(WORDS, WIDTH), nn.LayerNorm(WIDTH)
        self.layers, self.lm_head = nn.ModuleList(Layer() for _ in range(BLOCKS)), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def decoder():
    model, tokens = Decoder(), torch.zeros(BATCH, LENGTH, dtype=torch.long)
    return model, loss, torch.optim.AdamW(model.parameters()), (tokens, tokens)


def tensor_parallel(model):
    """As torchtitan has it: sequence parallel between the matrices, scores divided by words."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module

    mesh = init_device_mesh("cuda", (torch.distributed.get_world_size(),))
    whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    row = RowwiseParallel(output_layouts=Shard(1))
    parallelize_module(model, mesh, {
        "embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
        "lm_head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)})
    for layer in model.layers:
        parallelize_module(layer, mesh, {
            "norm1": SequenceParallel(), "norm2": SequenceParallel(), "self_attn": whole, "mlp": whole, "self_attn.o_proj": row, "mlp.down_proj": row,
            **{f"self_attn.{name}_proj": ColwiseParallel() for name in "qkv"}, "mlp.up_proj": ColwiseParallel()})
    return model


def loss(scores, labels):
    return nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())


def step():
    model, tokens = Network(), torch.zeros(BATCH, LENGTH, dtype=torch.long)
    return model, loss, torch.optim.AdamW(model.parameters()), (tokens, tokens)


def train(layout, file):
    torch.distributed.init_process_group("nccl")
    rank = torch.distributed.get_rank()
    torch.cuda.set_device(rank)
    model = (Decoder() if layout == "tp" else Network()).cuda()
    context = contextlib.nullcontext
    if layout == "tp":
        from torch.distributed.tensor.parallel import loss_parallel as context

        model = tensor_parallel(model)
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    elif layout == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        torch.cuda.empty_cache()  # of the whole model, which was there before its shards
        torch.cuda.reset_peak_memory_stats()
    else:
        model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        tokens = torch.zeros(BATCH, LENGTH, dtype=torch.long, device="cuda")
        with context():
            loss(model(tokens), tokens).backward()
        optimizer.step()
    if rank == 0:
        with open(file, "w") as out:
            json.dump([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()], out)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    train(*sys.argv[1:])
