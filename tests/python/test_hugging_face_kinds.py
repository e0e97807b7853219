"""EbbtideCallback in other trainers than the plain one, and with what users switch on: the same bits and losses as without it."""

import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")

from test_hugging_face_trainer import VOCABULARY, bits_of, make_data, make_model  # noqa: E402

import ebbtide  # noqa: E402

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
COMMON = {"max_steps": 3, "logging_steps": 1, "report_to": [], "disable_tqdm": True, "save_strategy": "no", "use_cpu": True}


def make_trainer(folder, callbacks, **arguments):
    from transformers import Trainer, TrainingArguments

    chosen = TrainingArguments(**{"per_device_train_batch_size": 8, "output_dir": str(folder)} | COMMON | arguments)
    return Trainer(model=make_model(), args=chosen, train_dataset=make_data(), eval_dataset=make_data()[:16], callbacks=callbacks)


def in_words(vocabulary):
    from tokenizers import Tokenizer, models
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"<pad>": 0, "<s>": 1, "</s>": 2} | {f"w{i}": i for i in range(3, vocabulary)}, unk_token="<pad>"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def sequence_to_sequence(folder, callbacks):
    """An encoder with a decoder and dropout, which also generates while it is evaluated."""
    from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    model = T5ForConditionalGeneration(T5Config(vocab_size=VOCABULARY, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0))
    chosen = Seq2SeqTrainingArguments(**COMMON, output_dir=str(folder), eval_strategy="steps", eval_steps=2, predict_with_generate=True,
                                      generation_max_length=8)
    return Seq2SeqTrainer(model=model, args=chosen, train_dataset=make_data(), eval_dataset=make_data()[:8], callbacks=callbacks)


def preferences(folder, callbacks):
    """Two models: one trains, and beside it runs the one that it is compared with."""
    pytest.importorskip("trl")
    from datasets import Dataset
    from trl import DPOConfig, DPOTrainer

    made = torch.Generator().manual_seed(1)

    def text(words):
        return " ".join(f"w{int(i)}" for i in torch.randint(3, VOCABULARY, (words,), generator=made))

    rows = [{"prompt": text(8), "chosen": text(12), "rejected": text(12)} for _ in range(32)]
    chosen = DPOConfig(**COMMON, output_dir=str(folder), per_device_train_batch_size=4, bf16=False, gradient_checkpointing=False)
    return DPOTrainer(model=make_model(), ref_model=make_model(), args=chosen, train_dataset=Dataset.from_list(rows), processing_class=in_words(VOCABULARY),
                      callbacks=callbacks)


def with_settings(**arguments):
    return lambda folder, callbacks: make_trainer(folder, callbacks, **arguments)


KINDS = {
    "bf16, accumulation": with_settings(bf16=True, gradient_accumulation_steps=2, per_device_train_batch_size=4),
    "checkpointing, evaluation between steps": with_settings(gradient_checkpointing=True, eval_strategy="steps", eval_steps=1),
    "a last batch that is smaller": with_settings(per_device_train_batch_size=24),
    "Seq2SeqTrainer": sequence_to_sequence,
    "DPOTrainer": preferences,
}


def outcome_of(trainer):
    """Bits of the parameters, and the losses of training and evaluation."""
    trainer.train()
    return bits_of(trainer.model), [entry.get(name) for entry in trainer.state.log_history for name in ("loss", "eval_loss")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_bits_are_those_of_a_training_without_it(kind, tmp_path):
    bits, losses = outcome_of(KINDS[kind](tmp_path, None))
    for callback in (ebbtide.hf.EbbtideCallback(budget="60%"), ebbtide.hf.EbbtideCallback(budget="1GiB", way="budget")):
        mine, my_losses = outcome_of(KINDS[kind](tmp_path, [callback]))
        assert torch.equal(bits, mine) and losses == my_losses
        assert 0 < callback.report()["peak_bytes"] <= callback.report()["budget_bytes"]
        torch._dynamo.reset()


def test_a_training_that_is_resumed_goes_on_with_its_bits(tmp_path):
    def train(folder, budget):
        for steps in (1, 3):
            callbacks = [ebbtide.hf.EbbtideCallback(budget=budget)] if budget else None
            trainer = make_trainer(folder, callbacks, max_steps=steps, save_strategy="steps", save_steps=1, lr_scheduler_type="constant")
            trainer.train(resume_from_checkpoint=steps > 1)
        return bits_of(trainer.model)

    assert torch.equal(train(tmp_path / "plain", None), train(tmp_path / "within", "60%"))


def test_a_limit_over_a_model_that_the_trainer_compiles(tmp_path):
    compiled = {"torch_compile": True, "torch_compile_backend": "eager", "max_steps": 2}
    bits, _ = outcome_of(make_trainer(tmp_path, None, **compiled))
    mine, _ = outcome_of(make_trainer(tmp_path, [ebbtide.hf.EbbtideCallback(budget="1GiB", way="budget")], **compiled))
    assert torch.equal(bits, mine)


def test_a_limit_that_is_too_small_says_what_it_was_short_of(tmp_path):
    whole = ebbtide.hf.EbbtideCallback(budget="1GiB", way="budget")
    make_trainer(tmp_path, [whole], max_steps=1).train()
    assert "short_of_bytes" not in whole.report()
    limit = whole.report()["peak_bytes"] // 10
    for _ in range(3):  # each failure tells the limit that its moment needs, and a later moment needs more
        callback = ebbtide.hf.EbbtideCallback(budget=limit, way="budget")
        with pytest.raises(torch.OutOfMemoryError):
            make_trainer(tmp_path, [callback], max_steps=1).train()
        callback.close()
        assert callback.report()["short_of_bytes"] > 0
        limit += callback.report()["short_of_bytes"]
    assert limit < whole.report()["peak_bytes"]
