"""x-transformers: a decoder with rotary positions and a wrapper that samples from it."""

import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

model = TransformerWrapper(num_tokens=256, max_seq_len=128, attn_layers=Decoder(dim=128, depth=3, heads=4, rotary_pos_emb=True, attn_flash=True))
model = AutoregressiveWrapper(model).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model(torch.randint(0, 256, (4, 128)).cuda()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    optimizer.zero_grad()
assert model.generate(torch.zeros(1, 1, dtype=torch.long).cuda(), 16).shape == (1, 16)
