"""The models that the engine is tested on, small enough for a CPU: (model, loss_fn, batch) by name. All in training mode, with the
dropout they have."""

import torch
from torch import nn
from torch.nn import functional as F


class SmallCNN(nn.Module):
    """Convolutions, batch norm, ReLU in place, dropout."""

    def __init__(self, widths=(8, 8, 16, 16)):
        super().__init__()
        layers = []
        for inputs, outputs in zip((3, *widths), widths):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True), nn.Dropout(0.2)]
        self.body, self.head = nn.Sequential(*layers), nn.Linear(widths[-1], 10)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def _images(batch, size, classes):
    return torch.randn(batch, 3, size, size), torch.randint(0, classes, (batch,))


def cnn():
    return SmallCNN(), F.cross_entropy, _images(8, 16, 10)


def vgg16():
    import torchvision

    model = torchvision.models.vgg16(weights=None, num_classes=10)
    model.classifier = nn.Sequential(nn.Linear(512 * 49, 64), nn.ReLU(True), nn.Dropout(), nn.Linear(64, 10))
    return model, F.cross_entropy, _images(2, 64, 10)


def resnet50():
    import torchvision

    return torchvision.models.resnet50(weights=None, num_classes=10), F.cross_entropy, _images(4, 64, 10)


def inception_v3():
    import torchvision

    model = torchvision.models.inception_v3(weights=None, num_classes=10, aux_logits=False, init_weights=False)
    return model, F.cross_entropy, _images(2, 96, 10)


def densenet121():
    import torchvision

    return torchvision.models.densenet121(weights=None, num_classes=10, drop_rate=0.1), F.cross_entropy, _images(2, 64, 10)


def unet():
    from ebbtide.torch_models import UNet

    return UNet(2, (8, 16, 32, 64)), F.cross_entropy, (torch.randn(2, 3, 64, 64), torch.randint(0, 2, (2, 64, 64)))


def lstm():
    from ebbtide.torch_models import TokenLSTM

    tokens = torch.randint(0, 200, (8, 20))
    return TokenLSTM(200, 48), lambda scores, target: F.cross_entropy(scores.flatten(0, 1), target.flatten()), (tokens, tokens.roll(1, 1))


def _transformer(class_name, **options):
    import transformers

    model_class = getattr(transformers, class_name)
    tokens = torch.randint(5, 500, (4, 64))
    model = model_class(model_class.config_class(vocab_size=500, use_cache=False, **options)).train()
    return model, None, {"input_ids": tokens, "labels": tokens.clone()}


def bert():
    return _transformer("BertForMaskedLM", num_hidden_layers=3, hidden_size=64, num_attention_heads=4, intermediate_size=256)


def gpt2():
    model, loss_fn, batch = _transformer("GPT2LMHeadModel", n_layer=3, n_embd=64, n_head=4, n_positions=128)
    model.loss_type = "ForCausalLM"  # else it warns that it has none
    return model, loss_fn, batch


ALL = {f.__name__: f for f in (cnn, vgg16, resnet50, inception_v3, densenet121, unet, lstm, bert, gpt2)}
