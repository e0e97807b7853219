"""vit-pytorch: a ViT, and distillation of one from a ResNet."""

import torch
from torchvision.models import resnet18
from vit_pytorch import ViT
from vit_pytorch.distill import DistillableViT, DistillWrapper

sizes = {"image_size": 64, "patch_size": 8, "num_classes": 10, "dim": 128, "depth": 2, "heads": 4, "mlp_dim": 256}
plain, taught = ViT(**sizes).cuda(), DistillWrapper(student=DistillableViT(**sizes), teacher=resnet18(num_classes=10)).cuda()
optimizer = torch.optim.AdamW([*plain.parameters(), *taught.parameters()])
for _ in range(3):
    images, labels = torch.rand(8, 3, 64, 64).cuda(), torch.randint(0, 10, (8,)).cuda()
    loss = torch.nn.functional.cross_entropy(plain(images), labels) + taught(images, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
