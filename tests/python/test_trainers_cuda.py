"""Trainers and trials on device cuda, on the phantom GPU with its race checker. Kernels are skipped there, so numbers are not compared."""

import json

import pytest
from support.on_phantom import CALM_END, importable, needs_phantom, run_program, statistics_in

pytest.importorskip("torch")
pytestmark = needs_phantom

TRAINER = """
import json, os, torch
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
import ebbtide
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

def train(callback):
    model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, hidden_size=64, intermediate_size=256, num_attention_heads=2, num_key_value_heads=2,
                                         vocab_size=128, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0))
    rows = [torch.arange(32) for _ in range(32)]
    arguments = TrainingArguments(per_device_train_batch_size=16, max_steps=2, logging_steps=1, report_to=[], disable_tqdm=True, save_strategy="no",
                                  output_dir="out", bf16=True)
    trainer = Trainer(model=model, args=arguments, train_dataset=[{"input_ids": row, "labels": row} for row in rows], callbacks=[callback])
    trainer.train()
    return callback.report() | {"device": str(next(trainer.model.parameters()).device)}

print("\\n" + json.dumps([train(ebbtide.hf.EbbtideCallback("90%")), train(ebbtide.hf.EbbtideCallback("1GiB", way="budget"))]))
"""


def test_a_trainer_keeps_its_budget_on_a_gpu(tmp_path):
    pytest.importorskip("accelerate")
    done = run_program(CALM_END + TRAINER, tmp_path, PYTHONPATH=importable(), EBBTIDE_PHANTOM_CHECK="race")
    compiled, held = json.loads(done.stdout.splitlines()[-1])
    assert compiled["device"] == held["device"] == "cuda:0"
    assert 0 < compiled["peak_bytes"] <= compiled["budget_bytes"] < compiled["plain_peak_bytes"] and 0 < held["peak_bytes"] <= 1 << 30
    assert all(statistics["race_count"] == 0 for statistics in statistics_in(tmp_path))


TRIALS = """
import json, threading, torch
from ebbtide.ray.trials import Trials

def step_fn(config):
    model = torch.nn.Sequential(torch.nn.Linear(64, config["width"]), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(config["width"], 1))
    batch = torch.zeros(256, 64, device="cuda"), torch.zeros(256, 1, device="cuda")
    model.cuda()
    return model, torch.nn.functional.mse_loss, torch.optim.Adam(model.parameters()), batch, [batch, batch]

trials, taken = Trials(step_fn, "64MiB", "cuda"), {}

def run(name, width):
    trials.open(name, {"width": width})
    count = len(trials.advance(name, 3))
    saved = trials.save(name)
    trials.close(name)
    trials.open(name, {"width": width}, saved)
    taken[name] = count + len(trials.advance(name, 2))
    trials.close(name)

threads = [threading.Thread(target=run, args=(f"trial {width}", width)) for width in (256, 512)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print("\\n" + json.dumps([taken, trials.report()]))
"""


def test_trials_share_a_gpu(tmp_path):
    pytest.importorskip("ray")
    done = run_program(CALM_END + TRIALS, tmp_path, PYTHONPATH=importable(), EBBTIDE_PHANTOM_CHECK="race")
    taken, report = json.loads(done.stdout.splitlines()[-1])
    assert taken == {"trial 256": 5, "trial 512": 5}
    assert 0 < report["peak_bytes"] <= report["capacity_bytes"] and report["trials"] == []
    assert all(statistics["race_count"] == 0 for statistics in statistics_in(tmp_path))
