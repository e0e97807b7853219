"""Trains a torchvision classifier for two steps on random images, the way many scripts do: images.py MODEL OPTIMIZER BATCH
[--amp] [--loader]."""

import sys

import torch
import torchvision
from torch import nn


class RandomImages(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        return torch.zeros(3, 224, 224), index % 1000


def main(name, optimizer, batch, *flags):
    batch = int(batch)
    with torch.device("cuda"):
        model = torchvision.models.get_model(name, weights=None)
    options = {"momentum": 0.9} if optimizer == "SGD" else {}
    optimizer = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01, **options)
    criterion = nn.CrossEntropyLoss()
    scaler = torch.amp.GradScaler("cuda", enabled="--amp" in flags)
    if "--loader" in flags:
        batches = torch.utils.data.DataLoader(RandomImages(), batch, num_workers=2, pin_memory=True)
    else:
        batches = [(torch.zeros(batch, 3, 224, 224), torch.zeros(batch, dtype=torch.int64))] * 2
    for step, (images, labels) in enumerate(batches):
        images, labels = images.to("cuda", non_blocking=True), labels.to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.float16, enabled="--amp" in flags):
            loss = criterion(model(images), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step == 1:
            break
    print("parameters", sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main(*sys.argv[1:])
