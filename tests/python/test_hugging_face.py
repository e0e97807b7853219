"""Configurations of Hugging Face: parameters beside transformers' own counts, structure beside captures of its modules, and what is refused."""

import json

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from support.command_line import assert_refused, result_of, run  # noqa: E402
from support.published_configs import CONFIGS, PARAMETERS  # noqa: E402
from support.zoo_figures import inspect  # noqa: E402

import ebbtide  # noqa: E402
from ebbtide import config_models  # noqa: E402

TINY = {"num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128}
HEADS = {"head_dim": 16}
DEEPSEEK = {"num_key_value_heads": 4, "kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
            "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "first_k_dense_replace": 1, "n_group": 2, "topk_group": 1}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
FAMILIES = {
    "llama": {}, "mistral": {"sliding_window": None}, "qwen2": {}, "qwen3": HEADS, "gemma": HEADS, "gemma2": HEADS,
    "gemma3_text": HEADS | {"sliding_window": 4096},
    "phi": {"num_key_value_heads": 4}, "phi3": {"pad_token_id": None}, "granite": {}, "gpt2": {"n_layer": 2, "n_embd": 64, "n_head": 4},
    "gpt_bigcode": {"n_layer": 2, "n_embd": 64, "n_head": 4}, "gpt_neox": {}, "opt": {"ffn_dim": 96, "word_embed_proj_dim": 64},
    "falcon": {"num_kv_heads": 2, "new_decoder_architecture": True}, "olmo": {}, "olmo2": {}, "deepseek_v2": DEEPSEEK | {"topk_method": "group_limited_greedy"},
    "deepseek_v3": DEEPSEEK, "mixtral": EXPERTS, "qwen2_moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
                                                               "shared_expert_intermediate_size": 48},
    "qwen3_moe": HEADS | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}, "granitemoe": EXPERTS,
    "gpt_oss": HEADS | EXPERTS,
    "bert": {}, "roberta": {}, "t5": {"num_layers": 2, "d_model": 64, "d_ff": 96, "num_heads": 4, "d_kv": 16, "decoder_start_token_id": 0, "pad_token_id": 0},
    "vit": {"image_size": 32, "patch_size": 8},
}
CLASSES = {"bert": "BertForMaskedLM", "roberta": "RobertaForMaskedLM", "t5": "T5ForConditionalGeneration", "vit": "ViTForImageClassification"}


def written(tmp_path, settings):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(settings))
    return path


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_those_of_transformers(name, tmp_path):
    assert inspect(written(tmp_path, CONFIGS[name]), batch_size=1)["parameters"] == PARAMETERS[name]


# Parameters are equal. Saved bytes and peaks differ where ops on integers, which the recording leaves out, are in the way.
@pytest.mark.parametrize("family", FAMILIES)
def test_structure_is_that_of_the_captured_module(family, tmp_path):
    settings = TINY | {"model_type": family} | FAMILIES[family]
    if family in CLASSES:
        settings["architectures"] = [CLASSES[family]]
    path = written(tmp_path, settings)
    sizes = {"batch_size": 3} if family == "vit" else {"batch_size": 3, "seq_len": 48}
    ours = inspect(path, **sizes)
    step = tmp_path / "step.json"
    ebbtide.capture(*config_models.build(path, **sizes)).save(step)
    captured = inspect(step)
    assert ours["parameters"] == captured["parameters"]
    # Falcon looks at its positions, which a capture cannot, and makes a mask in each layer that real data does not need.
    masks = 2 * 3 * 48 * 48 * 4 if family == "falcon" else 0
    assert ours["saved_bytes"] + masks == pytest.approx(captured["saved_bytes"], rel=0.01)
    # GPT-2's activation is a chain of small ops, of whose gradients we keep one a little longer.
    assert ours["peak_bytes"] + masks == pytest.approx(captured["peak_bytes"], rel=0.03 if family == "gpt2" else 0.02)


def test_a_folder_is_its_config(tmp_path):
    written(tmp_path, TINY | {"model_type": "llama"})
    assert inspect(tmp_path, batch_size=1) == inspect(tmp_path / "config.json", batch_size=1) | {"model": str(tmp_path)}


def test_other_families_are_captured(tmp_path):
    path = written(tmp_path, {"model_type": "gpt_neo", "num_layers": 2, "hidden_size": 32, "num_heads": 2, "vocab_size": 64,
                              "attention_types": [[["global"], 2]], "max_position_embeddings": 64, "architectures": ["GPTNeoForCausalLM"]})
    model = transformers.GPTNeoForCausalLM(transformers.AutoConfig.from_pretrained(tmp_path))
    assert inspect(path, batch_size=2, seq_len=16)["parameters"] == sum(p.numel() for p in model.parameters())


def test_flags_of_other_models_are_refused(tmp_path):
    for flag in (["--dtype", "bf16"], ["--quantize", "nf4"], ["--attention", "flash"], ["--packing"]):
        assert_refused(run("inspect", "resnet50", *flag), f"{flag[0]}: of no use with resnet50")
    path = str(written(tmp_path, TINY | {"model_type": "llama"}))
    assert_refused(run("inspect", path, "--quantize", "nf4"), "--quantize: expected --lora")
    assert_refused(run("inspect", path, "--attention", "flesh"), "--attention", "expected eager, sdpa or flash, found flesh")


def test_less_is_kept_step_by_step(tmp_path):
    """Each measure takes less than what came before it."""
    path = str(written(tmp_path, TINY | {"model_type": "llama", "hidden_size": 256, "intermediate_size": 768, "vocab_size": 32000}))
    base = ["--batch-size", "4", "--seq-len", "512", "--optimizer", "adamw", "--gpu", "a100-80gb"]
    measures = [["--dtype", "fp32"], ["--dtype", "bf16"], ["--dtype", "bf16", "--loss", "fused"], ["--dtype", "bf16", "--loss", "fused", "--checkpoint"],
                ["--dtype", "bf16", "--loss", "fused", "--checkpoint", "--lora", "8"],
                ["--dtype", "bf16", "--loss", "fused", "--checkpoint", "--lora", "8", "--quantize", "nf4"]]
    peaks = [result_of("estimate", path, *base, *measure)["peak_allocated_bytes"] for measure in measures]
    assert peaks == sorted(peaks, reverse=True) and len(set(peaks)) == len(peaks)
