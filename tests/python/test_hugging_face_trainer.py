"""ebbtide.hf in the real Trainer and TRL's SFTTrainer, on the CPU: the same bits as without, within the budget, and predictions of its own step."""

import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

import ebbtide  # noqa: E402

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
VOCABULARY, LENGTH = 128, 32


def make_model():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, hidden_size=64, intermediate_size=256, num_attention_heads=2, num_key_value_heads=2,
                                        vocab_size=VOCABULARY, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0))


def make_data():
    made = torch.Generator().manual_seed(1)
    rows = [torch.randint(3, VOCABULARY, (LENGTH,), generator=made) for _ in range(64)]
    return [{"input_ids": row, "labels": row} for row in rows]


def make_trainer(folder, callbacks=None, **arguments):
    from transformers import Trainer, TrainingArguments

    chosen = {"per_device_train_batch_size": 8, "max_steps": 3, "logging_steps": 1, "report_to": [], "disable_tqdm": True, "save_strategy": "no",
              "use_cpu": True, "output_dir": str(folder)} | arguments
    return Trainer(model=make_model(), args=TrainingArguments(**chosen), train_dataset=make_data(), callbacks=callbacks)


def bits_of(model):
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    trainer = make_trainer(tmp_path_factory.mktemp("plain"))
    trainer.train()
    return trainer


def test_importing_ebbtide_imports_no_trainer():
    code = "import sys, ebbtide; sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'accelerate', 'lightning', 'ray')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert {"hf", "lightning", "ray"} <= set(dir(ebbtide))


def test_a_compiled_training_keeps_its_budget_and_the_bits_and_is_in_the_log(plain, tmp_path):
    callback = ebbtide.hf.EbbtideCallback(budget="60%")
    trainer = make_trainer(tmp_path, [callback])
    trainer.train()
    assert torch.equal(bits_of(plain.model), bits_of(trainer.model))
    report = callback.report()
    assert 0 < report["peak_bytes"] <= report["budget_bytes"] <= 0.6 * report["plain_peak_bytes"] + 1
    assert report["predicted_peak_bytes"] <= report["budget_bytes"]
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert len(logged) == 3 and all(entry["ebbtide_peak_bytes"] == report["peak_bytes"] for entry in logged)
    assert trainer.model._compiled_call_impl is None  # as before


def test_a_budget_over_eager_training_swaps_and_keeps_the_bits(plain, tmp_path):
    whole = ebbtide.hf.EbbtideCallback(budget="1GiB", way="budget")
    make_trainer(tmp_path, [whole]).train()
    limit = whole.report()["peak_bytes"] * 7 // 10
    callback = ebbtide.hf.EbbtideCallback(budget=limit, way="budget")
    trainer = make_trainer(tmp_path, [callback])
    trainer.train()
    assert torch.equal(bits_of(plain.model), bits_of(trainer.model))
    assert callback.report()["peak_bytes"] <= limit and callback.report()["copied_out_bytes"] > 0


def test_a_training_that_failed_leaves_nothing_in_force_once_it_is_closed(tmp_path):
    callback = ebbtide.hf.EbbtideCallback(budget=1000, way="budget")
    with pytest.raises(torch.OutOfMemoryError):
        make_trainer(tmp_path, [callback]).train()
    callback.close()  # the Trainer does not tell callbacks of errors
    trainer = make_trainer(tmp_path)
    ebbtide.hf.attach(trainer, budget=1000, way="budget")
    with pytest.raises(torch.OutOfMemoryError):
        trainer.train()
    make_trainer(tmp_path, max_steps=1).train()  # attach has closed it


def test_reporters_see_the_figures_of_a_callback_that_was_attached(tmp_path):
    from transformers import TrainerCallback

    class Reporter(TrainerCallback):
        seen = []

        def on_log(self, args, state, control, logs=None, **kwargs):
            self.seen.append(set(logs))

    trainer = make_trainer(tmp_path, [Reporter()], max_steps=1)
    ebbtide.hf.attach(trainer, budget="1GiB", way="budget")
    trainer.train()
    assert all("ebbtide_peak_bytes" in names for names in Reporter.seen) and Reporter.seen


def test_an_estimate_is_of_the_trainers_own_step_and_changes_nothing(plain, tmp_path):
    trainer = make_trainer(tmp_path)
    said = ebbtide.hf.estimate(trainer, gpu="rtx3060")
    assert said.fits and trainer.optimizer is None and said.meta["optimizer"] == "adamw"
    trainer.train()
    assert torch.equal(bits_of(plain.model), bits_of(trainer.model))
    parameters = sum(parameter.nbytes for parameter in trainer.model.parameters())
    other = ebbtide.hf.estimate(make_trainer(tmp_path, gradient_accumulation_steps=4, gradient_checkpointing=True), gpu="rtx3060")
    # The gradients of the batches before are there all the time, like state; activations are computed again.
    assert 0.99 * parameters <= other.breakdown["Optstate"] - said.breakdown["Optstate"] <= 1.1 * parameters
    assert other.breakdown["Activation"] < 0.7 * said.breakdown["Activation"]


@pytest.mark.parametrize(("capacity", "first"), [(10_000, 8), (10_000, 400), (150, 8), (104, 8), (90, 8)])
def test_a_search_finds_the_largest_batch_from_few_captures(monkeypatch, capacity, first):
    from ebbtide.trainers import prediction

    def estimate(search, size):  # 100 bytes and 5 a sample, rounded up to 8: not quite a line
        return {"gpu": "gpu", "capacity_bytes": capacity, "safe_bytes": -(-(100 + 5 * size) // 8) * 8}

    def at(search, size):
        search.made.setdefault(size, estimate(search, size))

    monkeypatch.setattr(prediction._Search, "_estimate", estimate)
    monkeypatch.setattr(prediction._Search, "_at", at)
    search = prediction._Search(None, "gpu", {size: size for size in (first, 2 * first + 1, 3 * first + 5)})
    found = search.largest("safe_bytes")
    right = max((size for size in range(2000) if size and estimate(search, size)["safe_bytes"] <= capacity), default=0)
    assert right - max(1, right // 50) <= found <= right and len(search.made) <= 10


def test_mistakes_are_said_before_training(tmp_path):
    with pytest.raises(ValueError, match=r"torch_compile_backend='ebbtide'.*EbbtideCallback"):
        ebbtide.hf.EbbtideCallback  # noqa: B018  what a program that uses it imports
        make_trainer(tmp_path, torch_compile_backend="ebbtide")
    with pytest.raises(ValueError, match="would both compile"):
        make_trainer(tmp_path, [ebbtide.hf.EbbtideCallback("1GiB")], torch_compile=True, torch_compile_backend="eager").train()
    with pytest.raises(ValueError, match="'compile' or 'budget'"):
        ebbtide.hf.EbbtideCallback("1GiB", way="other")
    with pytest.raises(ValueError, match="budget"):
        ebbtide.hf.EbbtideCallback("50%", way="budget")


def test_a_plain_loop_of_accelerate_trains_within_a_budget():
    from accelerate import Accelerator

    def train(compiled):
        model = make_model()
        if compiled:
            model.compile(backend="ebbtide", options={"budget": "60%"})
        accelerator = Accelerator(cpu=True)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        loader = torch.utils.data.DataLoader(make_data(), batch_size=8)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for _, batch in zip(range(3), loader):
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        return bits_of(model)

    assert torch.equal(train(False), train(True))


def test_trl_sft_trains_within_a_budget(tmp_path):
    pytest.importorskip("trl")
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    from trl import SFTConfig, SFTTrainer

    words = Tokenizer(models.WordLevel({"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, VOCABULARY)}, unk_token="<pad>"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>")
    rows = [{"input_ids": row["input_ids"].tolist()} for row in make_data()]

    def train(callbacks):
        config = SFTConfig(per_device_train_batch_size=8, max_steps=3, report_to=[], disable_tqdm=True, save_strategy="no", use_cpu=True, bf16=False,
                           output_dir=str(tmp_path), max_length=LENGTH, gradient_checkpointing=False, logging_steps=1,
                           dataset_kwargs={"skip_prepare_dataset": True})
        trainer = SFTTrainer(model=make_model(), args=config, train_dataset=Dataset.from_list(rows), processing_class=tokenizer, callbacks=callbacks)
        trainer.train()
        return trainer

    without = train([])
    callback = ebbtide.hf.EbbtideCallback(budget="70%")
    with_budget = train([callback])
    assert torch.equal(bits_of(without.model), bits_of(with_budget.model))
    assert callback.report()["peak_bytes"] <= callback.report()["budget_bytes"]
