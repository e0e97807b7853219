"""torch.distributed with one process: DDP with buckets, then FSDP2 with DTensors and mixed precision."""

import os

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
torch.cuda.set_device(0)
torch.distributed.init_process_group("nccl", store=torch.distributed.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda:0"))


def layers():
    return torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU()) for _ in range(4)]).cuda()


def train(model):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.rand(32, 512).cuda()).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


train(torch.nn.parallel.DistributedDataParallel(layers(), device_ids=[0], gradient_as_bucket_view=True))
sharded = layers()
for layer in sharded:
    fully_shard(layer, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
fully_shard(sharded)
train(sharded)
torch.distributed.destroy_process_group()
