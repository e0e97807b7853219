"""timm: a ViT with mixup, its loss, and a scaler that looks for infinities."""

import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.utils import NativeScaler

model = timm.create_model("vit_tiny_patch16_224", num_classes=10).cuda()
mixup, loss_of = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=10), SoftTargetCrossEntropy()
optimizer, scaler = torch.optim.AdamW(model.parameters()), NativeScaler()
for _ in range(3):
    images, labels = mixup(torch.rand(8, 3, 224, 224).cuda(), torch.randint(0, 10, (8,)).cuda())
    with torch.autocast("cuda", dtype=torch.float16):
        loss = loss_of(model(images), labels)
    optimizer.zero_grad()
    scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
