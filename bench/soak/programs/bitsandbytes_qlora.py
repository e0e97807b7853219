"""bitsandbytes beside its Adam: paged, other optimizers, and a model in 4 bits that LoRA's matrices are trained for."""

import bitsandbytes
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

for kind in ("PagedAdamW8bit", "Lion8bit", "AdEMAMix8bit", "SGD8bit", "Adagrad8bit"):
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
    settings = {"momentum": 0.9} if kind == "SGD8bit" else {}
    optimizer = getattr(bitsandbytes.optim, kind)(model.parameters(), lr=1e-3, **settings)
    for _ in range(2):
        model(torch.rand(32, 1024).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

config = LlamaConfig(vocab_size=500, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4)
model = LlamaForCausalLM(config).bfloat16()
for name, module in list(model.named_modules()):
    if isinstance(module, torch.nn.Linear) and "lm_head" not in name:
        quantized = bitsandbytes.nn.Linear4bit(module.in_features, module.out_features, bias=False, compute_dtype=torch.bfloat16, quant_type="nf4")
        quantized.weight = bitsandbytes.nn.Params4bit(module.weight.data, requires_grad=False, quant_type="nf4")
        model.set_submodule(name, quantized)
model = get_peft_model(model.cuda(), LoraConfig(r=8, target_modules=["q_proj", "v_proj", "down_proj"]))
optimizer = bitsandbytes.optim.PagedAdamW32bit([weight for weight in model.parameters() if weight.requires_grad], lr=1e-3)
for _ in range(3):
    ids = torch.randint(0, 500, (2, 64)).cuda()
    model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
