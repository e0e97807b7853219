"""Mixtures of experts of transformers, each with a router of its own: shared experts, groups of experts, experts in one matrix product."""

import torch
import transformers as t

small = {"vocab_size": 500, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
experts = {"moe_intermediate_size": 64, "num_experts": 8, "num_experts_per_tok": 2}
latent = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16}
models = [
    t.Qwen2MoeForCausalLM(t.Qwen2MoeConfig(**small, **experts, shared_expert_intermediate_size=64, output_router_logits=True)),
    t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(**small, **experts, head_dim=16)),
    t.OlmoeForCausalLM(t.OlmoeConfig(**small, num_experts=8, num_experts_per_tok=2)),
    t.DeepseekV3ForCausalLM(t.DeepseekV3Config(**{**small, "num_key_value_heads": 4}, **latent, moe_intermediate_size=64, n_routed_experts=8,
                                               num_experts_per_tok=2, n_group=2, topk_group=1, first_k_dense_replace=1)),
    t.GptOssForCausalLM(t.GptOssConfig(**small, head_dim=16, num_local_experts=8, num_experts_per_tok=2)),
    t.PhimoeForCausalLM(t.PhimoeConfig(**small, num_local_experts=4)),
    t.JetMoeForCausalLM(t.JetMoeConfig(vocab_size=500, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_key_value_heads=2, kv_channels=16,
                                       num_local_experts=4)),
    t.SwitchTransformersForConditionalGeneration(t.SwitchTransformersConfig(vocab_size=500, d_model=64, d_kv=16, d_ff=64, num_layers=2, num_heads=4,
                                                                            num_experts=4, decoder_start_token_id=0)),
]
for model in models:
    model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        ids = torch.randint(3, 500, (2, 64)).cuda()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(type(model).__name__, torch.cuda.max_memory_reserved() >> 20, "MiB")
