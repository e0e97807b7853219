"""Trainings for tests and benchmarks of ebbtide.ray: small models by their config, and what becomes of them alone, in plain PyTorch."""

import torch
from torch import nn


def perceptron(config):
    width = config["width"]
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)), (64,)


def step_fn(config):
    """As ebbtide.ray takes it: batches are shuffled, and the model drops out, so random numbers count."""
    model, shape = perceptron(config)
    optimizer = torch.optim.Adam(model.parameters(), config["lr"])
    made = torch.Generator().manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(256, *shape, generator=made), torch.randn(256, 1, generator=made))
    example = torch.zeros(64, *shape), torch.zeros(64, 1)
    return model, nn.functional.mse_loss, optimizer, example, torch.utils.data.DataLoader(data, 64, shuffle=True)


def losses_alone(config, steps, make=step_fn, seed=0):
    """Of the first `steps` steps."""
    torch.manual_seed(seed)
    model, loss_fn, optimizer, _, loader = make(config)
    losses, batches = [], iter(())
    while len(losses) < steps:
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches)
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
