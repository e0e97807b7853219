"""Two steps of a 70B decoder under fully_shard, as any of its ranks runs them; for bench/parallel/posing_bench.py."""

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

WIDTH, HIDDEN, LAYERS, HEADS, KEY_HEADS, HEAD, WORDS, LENGTH = 8192, 28672, 80, 64, 8, 128, 128256, 2048


def linear(given, made):
    return nn.Linear(given, made, bias=False)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.q_proj, self.o_proj = linear(WIDTH, WIDTH), linear(WIDTH, WIDTH)
        self.k_proj, self.v_proj = linear(WIDTH, KEY_HEADS * HEAD), linear(WIDTH, KEY_HEADS * HEAD)
        self.gate_proj, self.up_proj, self.down_proj = linear(WIDTH, HIDDEN), linear(WIDTH, HIDDEN), linear(HIDDEN, WIDTH)

    def attend(self, x):
        q, k, v = (proj(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for proj in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (t.repeat_interleave(HEADS // KEY_HEADS, 1) for t in (k, v))
        return self.o_proj(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        y = self.norm2(x)
        return x + self.down_proj(nn.functional.silu(self.gate_proj(y)) * self.up_proj(y))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens, self.lm_head, self.norm = nn.Embedding(WORDS, WIDTH), linear(WIDTH, WORDS), nn.RMSNorm(WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.lm_head(self.norm(x))


def main():
    torch.distributed.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (torch.distributed.get_world_size(),))
    with torch.device("meta"):
        model = Decoder()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy).to_empty(device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        tokens = torch.zeros(1, LENGTH, dtype=torch.long, device="cuda")
        nn.functional.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
