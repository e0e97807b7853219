"""ebbtide.lightning in the real Trainer, on the CPU: the same bits as without, within the budget; batches that are predicted, by several ranks too."""

import logging
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
L = pytest.importorskip("lightning")

from torch import nn  # noqa: E402

import ebbtide  # noqa: E402

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
pytestmark = pytest.mark.filterwarnings("ignore")


class Model(L.LightningModule):
    def __init__(self, batch_size=512):
        super().__init__()
        self.batch_size = batch_size
        self.net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 1))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)

    def train_dataloader(self):
        made = torch.Generator().manual_seed(1)
        data = torch.utils.data.TensorDataset(torch.randn(2048, 64, generator=made), torch.randn(2048, 1, generator=made))
        return torch.utils.data.DataLoader(data, self.batch_size, shuffle=True)


class OfItself(Model):
    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, index):
        return nn.functional.mse_loss(self(batch[0]), batch[1])


def make_trainer(callbacks, **arguments):
    chosen = {"max_steps": 3, "accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
              "enable_model_summary": False, "devices": 1}
    return L.Trainer(callbacks=callbacks, **chosen | arguments)


def fit(callbacks, kind=Model, **arguments):
    torch.manual_seed(0)
    model, trainer = kind(), make_trainer(callbacks, **arguments)
    trainer.fit(model)
    return model, trainer


def bits_of(model):
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


@pytest.fixture(scope="module")
def plain():
    return bits_of(fit([])[0])


@pytest.mark.parametrize(("kind", "options"), [(Model, {}), (OfItself, {"module": ""})])
def test_a_compiled_fit_keeps_its_budget_and_the_bits(plain, kind, options):
    callback = ebbtide.lightning.EbbtideCallback("70%", **options)
    model, trainer = fit([callback], kind)
    report = callback.report()
    assert torch.equal(plain, bits_of(model))
    assert 0 < report["peak_bytes"] <= report["budget_bytes"] < report["plain_peak_bytes"]
    assert trainer.callback_metrics["ebbtide/peak_bytes"] == report["peak_bytes"]
    assert model.net._compiled_call_impl is None and model._compiled_call_impl is None


def test_a_budget_over_an_eager_fit_keeps_the_bits(plain):
    whole = ebbtide.lightning.EbbtideCallback("1GiB", way="budget")
    fit([whole])
    limit = whole.report()["peak_bytes"] * 8 // 10
    callback = ebbtide.lightning.EbbtideCallback(limit, way="budget")
    assert torch.equal(plain, bits_of(fit([callback])[0]))
    assert callback.report()["peak_bytes"] <= limit and callback.report()["copied_out_bytes"] > 0


def test_a_fit_that_fails_leaves_nothing_in_force(plain):
    with pytest.raises(torch.OutOfMemoryError):
        fit([ebbtide.lightning.EbbtideCallback(1000, way="budget")])
    assert torch.equal(plain, bits_of(fit([])[0]))


def test_where_nothing_compiled_is_called_an_error_says_so():
    with pytest.raises(ValueError, match="called nothing that was compiled"):
        fit([ebbtide.lightning.EbbtideCallback("1GiB", module="")])  # training_step calls self.net
    with pytest.raises(ValueError, match="it has net"):
        fit([ebbtide.lightning.EbbtideCallback("1GiB", module="nett")])


def test_every_trainer_gets_the_callback_where_the_environment_asks_for_it(monkeypatch):
    assert not any(isinstance(callback, ebbtide.lightning.EbbtideCallback) for callback in make_trainer([]).callbacks)
    monkeypatch.setenv("EBBTIDE_LIGHTNING_BUDGET", "1GiB")
    assert any(isinstance(callback, ebbtide.lightning.EbbtideCallback) for callback in make_trainer([]).callbacks)


class Small(ebbtide.lightning.BatchSizeFinder):
    """Writes down what its rank got."""

    def __init__(self, folder):
        super().__init__(gpu="rtx3060")
        self.folder = folder

    def on_fit_end(self, trainer, pl_module):
        (self.folder / str(trainer.global_rank)).write_text(f"{pl_module.batch_size} {self.prediction.batch_size}")


def two_ranks(folder):
    """In a process that has computed no gradients yet, since ranks are forked."""
    from ebbtide.lightning import batch_size as module
    from ebbtide.trainers.prediction import BatchPrediction

    def predict(step, gpu):
        size = 300 - 100 * torch.distributed.get_rank() if torch.distributed.is_initialized() else 300
        return BatchPrediction(str(gpu), 512, size, size)

    module.largest_batch = predict
    fit([Small(folder)], devices=2, strategy="ddp_fork", max_steps=1)


def test_several_ranks_take_the_least_of_what_each_predicts(tmp_path):
    code = f"import pathlib, test_lightning; test_lightning.two_ranks(pathlib.Path({str(tmp_path)!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    assert [(tmp_path / str(rank)).read_text() for rank in (0, 1)] == ["200 300", "200 200"]


def test_an_estimate_of_a_fit_is_that_of_its_step():
    said = ebbtide.lightning.estimate(make_trainer([]), Model(), gpu="rtx3060")
    step = Model()
    batch = next(iter(step.train_dataloader()))
    by_hand = ebbtide.estimate(step.net, batch[0], optimizer=torch.optim.AdamW(step.parameters()), gpu="rtx3060", loss_fn=nn.functional.mse_loss,
                               target=batch[1], zero_grad="end")
    assert said.fits and abs(said.peak_allocated_bytes - by_hand.peak_allocated_bytes) <= 4096  # names hold a few small tensors longer
