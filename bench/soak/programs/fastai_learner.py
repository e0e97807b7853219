"""fastai: one cycle of a learner on made-up pictures, in mixed precision."""

import torch
from fastai.vision.all import CrossEntropyLossFlat, DataLoaders, Learner, accuracy, xresnet18

data = [(torch.rand(3, 64, 64), i % 4) for i in range(24)]
loaders = DataLoaders.from_dsets(data, data[:8], bs=8, device="cuda", num_workers=0)
learner = Learner(loaders, xresnet18(n_out=4), loss_func=CrossEntropyLossFlat(), metrics=accuracy).to_fp16()
with learner.no_bar():
    learner.fit_one_cycle(1, 1e-3)
