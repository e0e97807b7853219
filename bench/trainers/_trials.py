"""Three families of models for a search: a convolutional network, a perceptron, a transformer, each in two sizes."""

import torch
from torch import nn

SIZES = {("cnn", "small"): 120, ("cnn", "large"): 520, ("perceptron", "small"): 12000, ("perceptron", "large"): 50000, ("transformer", "small"): 48,
         ("transformer", "large"): 200}  # samples to a batch
BATCHES = 2  # in an epoch


def cnn():
    layers, channels = [], 3
    for _ in range(4):
        layers += [nn.Conv2d(channels, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()]
        channels = 8
    return nn.Sequential(*layers, nn.Dropout(0.1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 1))


def perceptron():
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 1))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(64, 4, 256, 0.1, batch_first=True) for _ in range(2)])
        self.head = nn.Linear(64, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean(1))


MAKERS = {"cnn": (cnn, (3, 48, 48)), "perceptron": (perceptron, (64,)), "transformer": (Transformer, (96, 64))}


def step_fn(config):
    make, shape = MAKERS[config["family"]]
    size = SIZES[config["family"], config["size"]]
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), config["lr"])
    made = torch.Generator().manual_seed(1)
    data = torch.utils.data.TensorDataset(torch.randn(size * BATCHES, *shape, generator=made), torch.randn(size * BATCHES, 1, generator=made))
    return (model, nn.functional.mse_loss, optimizer, (torch.zeros(size, *shape), torch.zeros(size, 1)),
            torch.utils.data.DataLoader(data, size, shuffle=True))


def losses_of(config, steps, seed=0):
    """One by one, in plain PyTorch."""
    torch.manual_seed(seed)
    model, loss_fn, optimizer, _, loader = step_fn(config)
    batches = iter(())
    for _ in range(steps):
        batch = next(batches, None)
        if batch is None:
            batches = iter(loader)
            batch = next(batches)
        optimizer.zero_grad()
        loss = loss_fn(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        yield loss.item()
