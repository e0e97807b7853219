"""A training for bench/parallel/ranks_bench.py: `step` for captures, and as a program one rank of it under torchrun.

    torchrun --nproc-per-node N _ranks_job.py ddp|fsdp FILE: three iterations; rank 0 writes its peaks to FILE."""

import json
import sys

import torch
from torch import nn

WIDTH, BLOCKS, WORDS, BATCH, LENGTH = 1024, 8, 8000, 4, 256


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


def loss(scores, labels):
    return nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())


def step():
    model, tokens = Network(), torch.zeros(BATCH, LENGTH, dtype=torch.long)
    return model, loss, torch.optim.AdamW(model.parameters()), (tokens, tokens)


def train(layout, file):
    torch.distributed.init_process_group("nccl")
    rank = torch.distributed.get_rank()
    torch.cuda.set_device(rank)
    model = Network().cuda()
    if layout == "fsdp":
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
        loss(model(tokens), tokens).backward()
        optimizer.step()
    if rank == 0:
        with open(file, "w") as out:
            json.dump([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()], out)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    train(*sys.argv[1:])
