"""LoRA of peft on a Llama from its configuration."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(vocab_size=1000, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4)
model = get_peft_model(LlamaForCausalLM(config), LoraConfig(target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")).cuda()
optimizer = torch.optim.AdamW(p for p in model.parameters() if p.requires_grad)
for _ in range(3):
    ids = torch.randint(0, 1000, (4, 128)).cuda()
    model(input_ids=ids, labels=ids).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    optimizer.step()
    optimizer.zero_grad()
