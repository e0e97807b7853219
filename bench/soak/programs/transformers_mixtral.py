"""A mixture of experts of transformers: which expert gets a token depends on skipped kernels."""

import torch
from transformers import MixtralConfig, MixtralForCausalLM

config = MixtralConfig(vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
                       num_key_value_heads=2, num_local_experts=4, output_router_logits=True)
model = MixtralForCausalLM(config).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    ids = torch.randint(0, 1000, (2, 256)).cuda()
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
