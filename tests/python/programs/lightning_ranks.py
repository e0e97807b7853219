"""Lightning's Trainer on all GPUs, three steps: lightning_ranks.py STRATEGY (ddp, ddp_spawn, fsdp, deepspeed). It starts the other ranks by itself."""

import sys
import warnings

import lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(4)])

    def training_step(self, batch, index):
        loss = self.layers(batch[0]).square().mean()
        self.log("loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


if __name__ == "__main__":
    strategy = sys.argv[1]
    if strategy == "fsdp":
        strategy = pl.pytorch.strategies.FSDPStrategy(auto_wrap_policy={nn.Linear})
    trainer = pl.Trainer(max_steps=3, accelerator="gpu", devices=torch.cuda.device_count(), strategy=strategy, logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Model(), DataLoader(TensorDataset(torch.randn(64 * 3 * torch.cuda.device_count(), 512)), batch_size=64))
