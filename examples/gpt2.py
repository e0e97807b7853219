"""A four-layer GPT-2, whose batch is a dict and whose loss is its own. Try: ebbtide capture examples/gpt2.py:training_step -o gpt2.json"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def training_step(batch_size=4, seq_len=128):
    model = GPT2LMHeadModel(GPT2Config(n_layer=4, n_embd=256, n_head=4, use_cache=False)).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.randint(0, model.config.vocab_size, (batch_size, seq_len))
    return model, None, optimizer, {"input_ids": tokens, "labels": tokens}
