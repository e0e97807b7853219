"""Lightning's Trainer with the transformer of its own demos."""

import lightning as pl
import torch
from lightning.pytorch.demos import Transformer


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Transformer(vocab_size=500)

    def training_step(self, batch, index):
        inputs, target = batch
        loss = torch.nn.functional.nll_loss(self.model(inputs, target), target.view(-1))
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


data = torch.utils.data.TensorDataset(torch.randint(0, 500, (32, 35)), torch.randint(0, 500, (32, 35)))
trainer = pl.Trainer(max_steps=3, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, precision="16-mixed",
                     gradient_clip_val=0.5, enable_progress_bar=False)
trainer.fit(Model(), torch.utils.data.DataLoader(data, batch_size=4))
