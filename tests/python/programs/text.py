"""Trains a small BERT or GPT-2 of transformers for two steps with AdamW: text.py bert|gpt2 [--checkpointing]."""

import sys

import torch
import transformers


def main(name, *flags):
    size = {"bert": {"num_hidden_layers": 4}, "gpt2": {"n_layer": 4}}[name]
    classes = {"bert": (transformers.BertConfig, transformers.BertForMaskedLM),
               "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel)}
    make_config, make_model = classes[name]
    with torch.device("cuda"):
        model = make_model(make_config(**size))
    model.train()
    if "--checkpointing" in flags:
        model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(2):
        tokens = torch.randint(0, 1000, (8, 256)).to("cuda")
        optimizer.zero_grad()
        model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    print("parameters", sum(p.numel() for p in model.parameters()))


if __name__ == "__main__":
    main(*sys.argv[1:])
