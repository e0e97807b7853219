"""torchao beside its optimizers' 8 bits: 4 bits, fp8, states on the host, training in int8, float8 linear layers, training for quantization."""

import torch
from torchao.optim import Adam4bit, AdamW8bit, AdamWFp8, CPUOffloadOptimizer
from torchao.quantization import quantize_


def model():
    return torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1024)).bfloat16().cuda()


def train(made, optimizer):
    for _ in range(2):
        made(torch.randn(64, 1024, dtype=torch.bfloat16).cuda()).float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


for kind in (AdamW8bit, Adam4bit, AdamWFp8):
    made = model()
    train(made, kind(made.parameters()))
made = model()
train(made, CPUOffloadOptimizer(made.parameters(), torch.optim.AdamW))

from torchao.float8 import convert_to_float8_training  # noqa: E402

made = convert_to_float8_training(model())
train(made, torch.optim.AdamW(made.parameters()))

from torchao.quantization import Int8DynamicActivationIntxWeightConfig, IntxWeightOnlyConfig  # noqa: E402
from torchao.quantization.granularity import PerGroup  # noqa: E402
from torchao.quantization.qat import QATConfig  # noqa: E402

for base in (Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerGroup(32)),
             IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))):
    made = model()
    quantize_(made, QATConfig(base, step="prepare"))
    train(made, torch.optim.AdamW(made.parameters()))
    quantize_(made, QATConfig(base, step="convert"))
    made(torch.randn(64, 1024, dtype=torch.bfloat16).cuda())
