"""Hugging Face's Trainer, TRL's SFTTrainer and Lightning's Trainer on the CPU, plain and within 70 and 50 % of the plain peak: memory, time of a step, bits.

    build/python bench/trainers/budget_bench.py [--steps N]

Peaks are of what torch allocates on the CPU from the beginning of training on: activations, gradients, optimizer state, batches. With way="compile" the
budget, and so the share, is of forward and backward alone, as the backend has it. Fails where bits differ or a budget is exceeded. Times are medians
of a step over interleaved runs; they are shown, not judged.
"""

import argparse
import contextlib
import io
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

import lightning  # noqa: E402
import torch  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments  # noqa: E402

import ebbtide  # noqa: E402

VOCABULARY, LENGTH, BATCH = 512, 128, 8


def make_model():
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=4, hidden_size=128, intermediate_size=512, num_attention_heads=4, num_key_value_heads=4,
                                        vocab_size=VOCABULARY, max_position_embeddings=LENGTH, bos_token_id=1, eos_token_id=2, pad_token_id=0))


def make_rows(count):
    made = torch.Generator().manual_seed(1)
    return torch.randint(3, VOCABULARY, (count, LENGTH), generator=made)


class Clock(TrainerCallback):
    def __init__(self):
        self.times = []

    def on_step_begin(self, *args, **kwargs):
        self._begun = time.perf_counter()

    def on_step_end(self, *args, **kwargs):
        self.times.append(time.perf_counter() - self._begun)


def hugging_face(kind):
    def run(steps, callback, folder):
        common = {"per_device_train_batch_size": BATCH, "max_steps": steps, "report_to": [], "disable_tqdm": True, "save_strategy": "no", "use_cpu": True,
                  "output_dir": folder, "logging_steps": 1000, "max_grad_norm": 0.0}
        rows, clock, model = make_rows(BATCH * steps), Clock(), make_model()
        callbacks = [clock, *([callback] if callback else [])]
        if kind == "trl":
            from datasets import Dataset
            from tokenizers import Tokenizer, models
            from transformers import PreTrainedTokenizerFast
            from trl import SFTConfig, SFTTrainer

            words = Tokenizer(models.WordLevel({"<pad>": 0, "</s>": 2} | {f"w{i}": i for i in range(3, VOCABULARY)}, unk_token="<pad>"))
            tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="</s>")
            config = SFTConfig(**common, bf16=False, gradient_checkpointing=False, max_length=LENGTH, dataset_kwargs={"skip_prepare_dataset": True})
            trainer = SFTTrainer(model=model, args=config, processing_class=tokenizer, callbacks=callbacks,
                                 train_dataset=Dataset.from_list([{"input_ids": row.tolist()} for row in rows]))
        else:
            trainer = Trainer(model=model, args=TrainingArguments(**common), callbacks=callbacks,
                              train_dataset=[{"input_ids": row, "labels": row} for row in rows])
        trainer.train()
        return model, clock.times

    return run, ebbtide.hf.EbbtideCallback


class Module(lightning.LightningModule):
    def __init__(self, steps):
        super().__init__()
        self.model, self.rows = make_model(), make_rows(BATCH * steps)
        self.times = []

    def training_step(self, batch, index):
        return self.model(input_ids=batch[0], labels=batch[0]).loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-4)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(self.rows), BATCH)

    def on_train_batch_start(self, batch, index):
        self._begun = time.perf_counter()

    def on_train_batch_end(self, outputs, batch, index):
        self.times.append(time.perf_counter() - self._begun)


def in_lightning():
    def run(steps, callback, folder):
        module = Module(steps)
        lightning.Trainer(max_steps=steps, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                          enable_model_summary=False, default_root_dir=folder, callbacks=[callback] if callback else []).fit(module)
        return module.model, module.times

    return run, ebbtide.lightning.EbbtideCallback


def quiet(run):
    """What trainers print is not ours."""

    def muted(*arguments):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return run(*arguments)

    return muted


def bits_of(model):
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    options = parser.parse_args()
    torch.set_num_threads(1)
    failed = 0
    print(f"{'trainer':12}{'way':18}{'budget':>12}{'peak':>12}{'of plain':>10}{'time':>8}  bits")
    for name, (run, kind) in {"Trainer": hugging_face("plain"), "TRL SFT": hugging_face("trl"), "Lightning": in_lightning()}.items():
        run = quiet(run)
        with tempfile.TemporaryDirectory() as folder:
            whole = kind("64GiB", way="budget")
            model, times = run(options.steps, whole, folder)
            peak, expected = whole.report()["peak_bytes"], bits_of(model)
            # The first steps capture, measure and plan, or make the optimizer's state.
            plain = statistics.median(run(options.steps, None, folder)[1][2:])
            print(f"{name:12}{'plain':18}{'':>12}{peak / 2**20:>8.1f} MiB{1:>10.0%}{1:>8.2f}")
            for way in ("budget", "compile"):
                for share in (70, 50):
                    callback = kind(peak * share // 100 if way == "budget" else f"{share}%", way=way)
                    try:
                        model, times = run(options.steps, callback, folder)
                    except (ebbtide.BudgetError, torch.OutOfMemoryError) as error:
                        getattr(callback, "close", callback._holding.end)()
                        print(f"{name:12}{way + f' {share} %':18}  does not fit: {str(error)[:120]}")
                        continue
                    plain = statistics.median([plain, statistics.median(run(options.steps, None, folder)[1][2:])])
                    report = callback.report()
                    same = torch.equal(expected, bits_of(model))
                    kept = report["peak_bytes"] <= report["budget_bytes"]
                    failed += not same or not kept
                    print(f"{name:12}{way + f' {share} %':18}{report['budget_bytes'] / 2**20:>8.1f} MiB{report['peak_bytes'] / 2**20:>8.1f} MiB"
                          f"{report['peak_bytes'] / report.get('plain_peak_bytes', peak):>10.0%}{statistics.median(times[2:]) / plain:>8.2f}"
                          f"  {'same' if same else 'DIFFER'}{'' if kept else ', BUDGET EXCEEDED'}", flush=True)
    print(f"{failed} failed" if failed else "the same bits and no peak above its budget in every row")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
