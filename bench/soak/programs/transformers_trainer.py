"""transformers' Trainer: GPT-2 from its configuration, mixed precision, its default optimizer."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=256, n_head=4))
data = [{"input_ids": ids, "labels": ids} for ids in torch.randint(0, 50257, (32, 128))]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, per_device_train_batch_size=4, max_steps=3, bf16=True, report_to=[], logging_steps=1)
    Trainer(model=model, args=arguments, train_dataset=data).train()
