"""The models that step_bench.py measures: those of tests/python/support/run_models.py, of sizes at which activations outweigh state and
an op takes longer than to call it; and how each is trained."""

import copy

import torch
from support import run_models
from support.replay import loss_of
from torch import nn
from torch.nn import functional as F

import ebbtide
from ebbtide import BudgetError


def _images(batch, size, classes=10):
    return torch.randn(batch, 3, size, size), torch.randint(0, classes, (batch,))


def cnn():
    return run_models.SmallCNN((16, 16, 32, 32)), F.cross_entropy, _images(16, 32)


def vgg16():
    from torchvision.models import vgg

    half = [32, 32, "M", 64, 64, "M", *(128,) * 3, "M", *(256,) * 3, "M", *(256,) * 3, "M"]
    model = vgg.VGG(vgg.make_layers(half, batch_norm=False), num_classes=10)
    model.classifier = nn.Sequential(nn.Linear(256 * 49, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, 10))
    return model, F.cross_entropy, _images(12, 96)


def resnet50():
    return run_models.resnet50()[0], F.cross_entropy, _images(12, 96)


def inception_v3():
    return run_models.inception_v3()[0], F.cross_entropy, _images(12, 128)


def densenet121():
    return run_models.densenet121()[0], F.cross_entropy, _images(12, 64)


def unet():
    from ebbtide.torch_models import UNet

    return UNet(2, (16, 32, 64, 128)), F.cross_entropy, (torch.randn(4, 3, 96, 96), torch.randint(0, 2, (4, 96, 96)))


def lstm():
    from ebbtide.torch_models import TokenLSTM

    tokens = torch.randint(0, 200, (32, 40))
    return TokenLSTM(200, 96), run_models.lstm()[1], (tokens, tokens.roll(1, 1))


def _longer(made, batch, words):
    model, loss_fn, _ = made
    tokens = torch.randint(5, 500, (batch, words))
    return model, loss_fn, {"input_ids": tokens, "labels": tokens.clone()}


def bert():
    return _longer(run_models.bert(), 8, 128)


def gpt2():
    return _longer(run_models.gpt2(), 8, 128)


MEASURED = {f.__name__: f for f in (cnn, vgg16, resnet50, inception_v3, densenet121, unet, lstm, bert, gpt2)}


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


OPTIMIZERS = {"cnn": torch.optim.Adam, "bert": torch.optim.AdamW, "gpt2": torch.optim.Adam, "unet": torch.optim.RMSprop,
              "densenet121": torch.optim.Adagrad}


class Job:
    """`models`: MEASURED, or run_models.ALL with the smallest sizes."""

    def __init__(self, name, models):
        torch.manual_seed(0)
        self.name = name
        self.start, self.loss_fn, self.batch = models[name]()
        self.make_optimizer = OPTIMIZERS.get(name, momentum)

    def trainer(self):
        model = copy.deepcopy(self.start)
        return model, self.make_optimizer(model.parameters())

    def step(self, **options):
        """The step, or None where the policy finds no plan; for home the smallest budget that works, then."""
        model, optimizer = self.trainer()
        try:
            return model, optimizer, ebbtide.step(model, self.loss_fn, optimizer, self.batch, **options)
        except BudgetError as error:
            if options.get("policy", "home") != "home":
                return None
            options["budget"] = error.minimum_budget_bytes
            return model, optimizer, ebbtide.step(model, self.loss_fn, optimizer, self.batch, **options)

    def call(self, step):
        return step(self.batch) if isinstance(self.batch, dict) else step(*self.batch)

    def plain(self, model, optimizer):
        """One step of an ordinary loop; `model` is anything that is called as the model is."""
        optimizer.zero_grad()
        loss = loss_of(model, self.loss_fn, self.batch)
        loss.backward()
        optimizer.step()
        return loss.detach()
