"""Published models: the settings that decide their sizes, and how many parameters transformers 5.22.2 gives them (built on the meta device)."""


def llama(layers, width, hidden, heads, keys, words, **more):
    return {"model_type": "llama", "num_hidden_layers": layers, "hidden_size": width, "intermediate_size": hidden,
            "num_attention_heads": heads, "num_key_value_heads": keys, "vocab_size": words, "tie_word_embeddings": False} | more


def gpt2(layers, width, heads, positions=1024, words=50257, **more):
    return {"model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": heads, "n_positions": positions, "vocab_size": words} | more


def neox(layers, width, heads, words, **more):
    return {"model_type": "gpt_neox", "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads,
            "intermediate_size": 4 * width, "vocab_size": words, "rotary_pct": 0.25} | more


def opt(layers, width, heads, **more):
    return {"model_type": "opt", "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "ffn_dim": 4 * width,
            "word_embed_proj_dim": width, "vocab_size": 50272, "max_position_embeddings": 2048} | more


def t5(layers, width, hidden, heads, head_width=64, **more):
    return {"model_type": "t5", "num_layers": layers, "d_model": width, "d_ff": hidden, "num_heads": heads, "d_kv": head_width, "vocab_size": 32128} | more


def bert(layers, width, heads, words=30522, **more):
    return {"model_type": "bert", "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "intermediate_size": 4 * width,
            "vocab_size": words} | more


def whisper(layers, width, heads, **more):
    return {"model_type": "whisper", "encoder_layers": layers, "decoder_layers": layers, "d_model": width, "encoder_attention_heads": heads,
            "decoder_attention_heads": heads, "encoder_ffn_dim": 4 * width, "decoder_ffn_dim": 4 * width, "vocab_size": 51865} | more


def vit(layers, width, heads, patch, **more):
    return {"model_type": "vit", "num_hidden_layers": layers, "hidden_size": width, "num_attention_heads": heads, "intermediate_size": 4 * width,
            "patch_size": patch, "image_size": 224, "architectures": ["ViTForImageClassification"], "num_labels": 1000} | more


CONFIGS = {
    "llama-2-7b": llama(32, 4096, 11008, 32, 32, 32000),
    "llama-2-13b": llama(40, 5120, 13824, 40, 40, 32000),
    "llama-2-70b": llama(80, 8192, 28672, 64, 8, 32000),
    "llama-3-8b": llama(32, 4096, 14336, 32, 8, 128256),
    "llama-3-70b": llama(80, 8192, 28672, 64, 8, 128256),
    "llama-3.2-1b": llama(16, 2048, 8192, 32, 8, 128256, head_dim=64, tie_word_embeddings=True),
    "llama-3.2-3b": llama(28, 3072, 8192, 24, 8, 128256, head_dim=128, tie_word_embeddings=True),
    "tinyllama-1.1b": llama(22, 2048, 5632, 32, 4, 32000),
    "granite-3b-code": llama(32, 2560, 10240, 32, 32, 49152, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "mistral-7b": llama(32, 4096, 14336, 32, 8, 32000, model_type="mistral", sliding_window=4096),
    "mistral-nemo-12b": llama(40, 5120, 14336, 32, 8, 131072, model_type="mistral", head_dim=128, sliding_window=None),
    "qwen2-0.5b": llama(24, 896, 4864, 14, 2, 151936, model_type="qwen2", tie_word_embeddings=True),
    "qwen2.5-7b": llama(28, 3584, 18944, 28, 4, 152064, model_type="qwen2"),
    "qwen2.5-72b": llama(80, 8192, 29568, 64, 8, 152064, model_type="qwen2"),
    "deepseek-r1-distill-qwen-1.5b": llama(28, 1536, 8960, 12, 2, 151936, model_type="qwen2"),
    "qwen3-0.6b": llama(28, 1024, 3072, 16, 8, 151936, model_type="qwen3", head_dim=128, tie_word_embeddings=True),
    "qwen3-4b": llama(36, 2560, 9728, 32, 8, 151936, model_type="qwen3", head_dim=128, tie_word_embeddings=True),
    "qwen3-32b": llama(64, 5120, 25600, 64, 8, 151936, model_type="qwen3", head_dim=128),
    "gemma-2b": llama(18, 2048, 16384, 8, 1, 256000, model_type="gemma", head_dim=256, tie_word_embeddings=True, hidden_act="gelu_pytorch_tanh"),
    "gemma-7b": llama(28, 3072, 24576, 16, 16, 256000, model_type="gemma", head_dim=256, tie_word_embeddings=True, hidden_act="gelu_pytorch_tanh"),
    "gemma-2-2b": llama(26, 2304, 9216, 8, 4, 256000, model_type="gemma2", head_dim=256, tie_word_embeddings=True),
    "gemma-2-9b": llama(42, 3584, 14336, 16, 8, 256000, model_type="gemma2", head_dim=256, tie_word_embeddings=True),
    "gemma-2-27b": llama(46, 4608, 36864, 32, 16, 256000, model_type="gemma2", head_dim=128, tie_word_embeddings=True),
    "gemma-3-1b": llama(26, 1152, 6912, 4, 1, 262144, model_type="gemma3_text", head_dim=256, sliding_window=512, tie_word_embeddings=True),
    "phi-1": {"model_type": "phi", "num_hidden_layers": 24, "hidden_size": 2048, "num_attention_heads": 32, "intermediate_size": 8192,
              "vocab_size": 51200, "partial_rotary_factor": 0.5},
    "phi-2": {"model_type": "phi", "num_hidden_layers": 32, "hidden_size": 2560, "num_attention_heads": 32, "intermediate_size": 10240,
              "vocab_size": 51200, "partial_rotary_factor": 0.4},
    "phi-3-mini": llama(32, 3072, 8192, 32, 32, 32064, model_type="phi3", sliding_window=2047, pad_token_id=None),
    "phi-4": llama(40, 5120, 17920, 40, 10, 100352, model_type="phi3", pad_token_id=None),
    "granite-3.0-2b": llama(40, 2048, 8192, 32, 8, 49155, model_type="granite", tie_word_embeddings=True),
    "granite-3.0-8b": llama(40, 4096, 12800, 32, 8, 49155, model_type="granite", tie_word_embeddings=True),
    "granite-3.0-3b-a800m": llama(32, 1536, 512, 24, 8, 49155, model_type="granitemoe", num_local_experts=40, num_experts_per_tok=8,
                                  tie_word_embeddings=True),
    "granite-3.0-1b-a400m": llama(24, 1024, 512, 16, 8, 49155, model_type="granitemoe", num_local_experts=32, num_experts_per_tok=8,
                                  tie_word_embeddings=True),
    "gpt2": gpt2(12, 768, 12),
    "gpt2-xl": gpt2(48, 1600, 25),
    "distilgpt2": gpt2(6, 768, 12),
    "cerebras-gpt-111m": gpt2(10, 768, 12, 2048, n_inner=3072, activation_function="gelu"),
    "starcoderbase-1b": gpt2(24, 2048, 16, 8192, 49152, model_type="gpt_bigcode", n_inner=8192, multi_query=True),
    "starcoder": gpt2(40, 6144, 48, 8192, 49152, model_type="gpt_bigcode", n_inner=24576, multi_query=True),
    "pythia-160m": neox(12, 768, 12, 50304),
    "pythia-6.9b": neox(32, 4096, 32, 50432),
    "gpt-neox-20b": neox(44, 6144, 64, 50432),
    "opt-125m": opt(12, 768, 12),
    "opt-350m": opt(24, 1024, 16, word_embed_proj_dim=512, do_layer_norm_before=False),
    "opt-6.7b": opt(32, 4096, 32),
    "falcon-7b": {"model_type": "falcon", "num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71, "vocab_size": 65024,
                  "multi_query": True, "parallel_attn": True, "new_decoder_architecture": False, "bias": False, "alibi": False},
    "falcon-40b": {"model_type": "falcon", "num_hidden_layers": 60, "hidden_size": 8192, "num_attention_heads": 128, "num_kv_heads": 8,
                   "vocab_size": 65024, "new_decoder_architecture": True, "bias": False, "alibi": False},
    "olmo-1b": llama(16, 2048, 8192, 16, 16, 50304, model_type="olmo", tie_word_embeddings=True),
    "olmo-7b": llama(32, 4096, 11008, 32, 32, 50304, model_type="olmo"),
    "olmo-2-7b": llama(32, 4096, 11008, 32, 32, 100352, model_type="olmo2"),
    "deepseek-v2-lite": llama(27, 2048, 10944, 16, 16, 102400, model_type="deepseek_v2", moe_intermediate_size=1408, n_routed_experts=64,
                              n_shared_experts=2, num_experts_per_tok=6, first_k_dense_replace=1, kv_lora_rank=512, q_lora_rank=None,
                              qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, topk_method="greedy", n_group=1, topk_group=1),
    "deepseek-v2": llama(60, 5120, 12288, 128, 128, 102400, model_type="deepseek_v2", moe_intermediate_size=1536, n_routed_experts=160,
                         n_shared_experts=2, num_experts_per_tok=6, first_k_dense_replace=1, kv_lora_rank=512, q_lora_rank=1536,
                         qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, topk_method="group_limited_greedy", n_group=8, topk_group=3),
    "deepseek-v3": llama(61, 7168, 18432, 128, 128, 129280, model_type="deepseek_v3", moe_intermediate_size=2048, n_routed_experts=256,
                         n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=3, kv_lora_rank=512, q_lora_rank=1536,
                         qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, n_group=8, topk_group=4),
    "mixtral-8x7b": llama(32, 4096, 14336, 32, 8, 32000, model_type="mixtral", num_local_experts=8, num_experts_per_tok=2),
    "mixtral-8x22b": llama(56, 6144, 16384, 48, 8, 32768, model_type="mixtral", num_local_experts=8, num_experts_per_tok=2),
    "qwen1.5-moe-a2.7b": llama(24, 2048, 5632, 16, 16, 151936, model_type="qwen2_moe", num_experts=60, num_experts_per_tok=4,
                               moe_intermediate_size=1408, shared_expert_intermediate_size=5632),
    "qwen3-30b-a3b": llama(48, 2048, 6144, 32, 4, 151936, model_type="qwen3_moe", head_dim=128, num_experts=128, num_experts_per_tok=8,
                           moe_intermediate_size=768, norm_topk_prob=True),
    "gpt-oss-20b": llama(24, 2880, 2880, 64, 8, 201088, model_type="gpt_oss", head_dim=64, num_local_experts=32, num_experts_per_tok=4,
                         sliding_window=128, attention_bias=True),
    "bert-base": bert(12, 768, 12),
    "bert-large": bert(24, 1024, 16),
    "roberta-base": bert(12, 768, 12, 50265, model_type="roberta", type_vocab_size=1, max_position_embeddings=514),
    "t5-small": t5(6, 512, 2048, 8),
    "t5-base": t5(12, 768, 3072, 12),
    "flan-t5-large": t5(24, 1024, 2816, 16, feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    "whisper-tiny": whisper(4, 384, 6),
    "whisper-large-v2": whisper(32, 1280, 20),
    "vit-base": vit(12, 768, 12, 16),
    "vit-large": vit(24, 1024, 16, 16),
    "clip-vit-base-patch32": {"model_type": "clip", "projection_dim": 512,
                              "text_config": {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 12, "intermediate_size": 2048},
                              "vision_config": {"hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12, "intermediate_size": 3072,
                                                "patch_size": 32}},
}

PARAMETERS = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "tinyllama-1.1b": 1_100_048_384,
    "granite-3b-code": 3_482_503_680,
    "mistral-7b": 7_241_732_096,
    "mistral-nemo-12b": 12_247_782_400,
    "qwen2-0.5b": 494_032_768,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-72b": 72_706_203_648,
    "deepseek-r1-distill-qwen-1.5b": 1_777_088_000,
    "qwen3-0.6b": 596_049_920,
    "qwen3-4b": 4_022_468_096,
    "qwen3-32b": 32_762_123_264,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-1b": 999_885_952,
    "phi-1": 1_418_270_720,
    "phi-2": 2_779_683_840,
    "phi-3-mini": 3_821_079_552,
    "phi-4": 14_659_507_200,
    "granite-3.0-2b": 2_533_531_648,
    "granite-3.0-8b": 8_170_848_256,
    "granite-3.0-3b-a800m": 3_298_793_472,
    "granite-3.0-1b-a400m": 1_334_628_352,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "distilgpt2": 81_912_576,
    "cerebras-gpt-111m": 111_050_496,
    "starcoderbase-1b": 1_137_207_296,
    "starcoder": 15_517_456_384,
    "pythia-160m": 162_322_944,
    "pythia-6.9b": 6_857_302_016,
    "gpt-neox-20b": 20_554_567_680,
    "opt-125m": 125_239_296,
    "opt-350m": 331_196_416,
    "opt-6.7b": 6_658_473_984,
    "falcon-7b": 6_921_720_704,
    "falcon-40b": 41_303_293_952,
    "olmo-1b": 1_176_764_416,
    "olmo-7b": 6_888_095_744,
    "olmo-2-7b": 7_298_617_344,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v3": 671_026_404_352,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_630_071_296,
    "qwen1.5-moe-a2.7b": 14_315_784_192,
    "qwen3-30b-a3b": 30_532_122_624,
    "gpt-oss-20b": 20_914_757_184,
    "bert-base": 109_514_298,
    "bert-large": 335_174_458,
    "roberta-base": 124_697_433,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "flan-t5-large": 750_251_008,
    "whisper-tiny": 37_760_640,
    "whisper-large-v2": 1_543_304_960,
    "vit-base": 86_567_656,
    "vit-large": 304_326_632,
    "clip-vit-base-patch32": 151_277_313,
}
