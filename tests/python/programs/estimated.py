"""Programs that `ebbtide estimate` captures and that also run by themselves: python estimated.py NAME."""

import sys

import torch
import torch.nn.functional as F
from torch import nn


class Words(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        self.words, self.layers, self.scores = nn.Embedding(500, 64), kind(64, 96, 2, **options), nn.Linear(96, 500)

    def forward(self, x):
        return self.scores(self.layers(self.words(x))[0]).flatten(0, 1)


class Speech(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.scores = nn.Linear(40, 128), nn.Linear(128, 60)

    def forward(self, x):
        return self.scores(self.hidden(x).relu()).log_softmax(-1)


class Sorted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 4096)

    def forward(self, x):
        return self.layer(x).sort(-1)[0].cumsum(0)


def text(kind, optimizer, **options):
    model = Words(kind, **options)
    return model, F.cross_entropy, optimizer(model.parameters()), (torch.zeros(20, 16, dtype=torch.long), torch.zeros(320, dtype=torch.long))


def lstm():
    return text(nn.LSTM, lambda p: torch.optim.AdamW(p, fused=True), dropout=0.1)


def gru():
    return text(nn.GRU, torch.optim.NAdam)


def ctc():
    model = Speech()
    return (model, lambda out, labels: F.ctc_loss(out, labels, (50,) * 4, (12,) * 4), torch.optim.Adadelta(model.parameters()),
            (torch.zeros(50, 4, 40), torch.zeros(4, 12, dtype=torch.long)))


def sorting():
    model = Sorted()
    return model, F.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), (torch.zeros(2048, 64), torch.zeros(2048, 4096))


def main(name):
    model, loss_fn, optimizer, batch = globals()[name]()
    model.cuda()
    for _ in range(3):
        optimizer.zero_grad()
        x, y = (tensor.to("cuda") for tensor in batch)
        out = model(x)
        loss = loss_fn(out, y)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(sys.argv[1])
