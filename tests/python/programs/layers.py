"""Small programs around one feature each, two steps: layers.py lstm|plain|checkpoint|save_on_cpu|ddp."""

import os
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH, BATCH, BLOCKS = 1024, 4096, 6


class Blocks(nn.Module):
    def __init__(self, checkpointed):
        super().__init__()
        self.checkpointed = checkpointed
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(BLOCKS))

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return x


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5000, 256)
        self.lstm = nn.LSTM(256, 256, num_layers=2, dropout=0.2, bidirectional=True, batch_first=True)
        self.output = nn.Linear(512, 50)

    def forward(self, tokens):
        return self.output(self.lstm(self.embedding(tokens))[0])


def train(model, make_batch, loss_of, around=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        x = make_batch()
        if around is None:
            loss = loss_of(model(x))
        else:
            with around():
                loss = loss_of(model(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("parameters", sum(p.numel() for p in model.parameters()))


def activations():
    return torch.zeros(BATCH, WIDTH).to("cuda")


def main(what):
    if what == "lstm":
        labels = torch.zeros(32 * 60, dtype=torch.int64, device="cuda")
        train(Tagger().to("cuda"), lambda: torch.zeros(32, 60, dtype=torch.int64).to("cuda"),
              lambda out: nn.functional.cross_entropy(out.flatten(0, 1), labels))
    elif what == "ddp":
        os.environ.setdefault("MASTER_ADDR", "localhost")
        os.environ.setdefault("MASTER_PORT", "0")
        torch.distributed.init_process_group("nccl", rank=0, world_size=1)
        train(nn.parallel.DistributedDataParallel(Blocks(False).to("cuda"), device_ids=[0]), activations, torch.sum)
        torch.distributed.destroy_process_group()
    else:
        around = {"save_on_cpu": lambda: torch.autograd.graph.save_on_cpu(pin_memory=True)}.get(what)
        train(Blocks(what == "checkpoint").to("cuda"), activations, torch.sum, around)


if __name__ == "__main__":
    main(sys.argv[1])
