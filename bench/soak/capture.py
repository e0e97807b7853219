"""Every built-in family at small sizes, really trained: by its captured graph, op by op, and by plain PyTorch. Both must
agree to the last bit after two steps with Adam."""

import os
import pathlib
import sys
import time
import warnings

import torch
from torch.nn import functional as F

import ebbtide
from ebbtide import torch_models

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))
from support.replay import assert_trains_alike  # noqa: E402

IMAGE_SIZES = {"alexnet": 64, "inception_v3": 299, "inception_v4": 96}  # else 32 pixels, a size that all the others take
SMALL = {
    "BertForMaskedLM": {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64},
    "GPT2LMHeadModel": {"n_layer": 2, "n_embd": 32, "n_head": 2, "n_positions": 64},
    "GPTNeoForCausalLM": {
        "num_layers": 2, "hidden_size": 32, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 8},
    "OPTForCausalLM": {
        "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "word_embed_proj_dim": 16, "ffn_dim": 64,
        "do_layer_norm_before": False},
    "T5ForConditionalGeneration": {
        "d_model": 32, "d_ff": 64, "num_layers": 2, "num_heads": 4, "d_kv": 8, "decoder_start_token_id": 0},
    "LlamaForCausalLM": {
        "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64},
    "Qwen2ForCausalLM": {
        "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64},
    "Qwen3ForCausalLM": {
        "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
        "head_dim": 8},
    "Gemma2ForCausalLM": {
        "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
        "head_dim": 8},
}


def image_models():
    for name in torch_models.TORCHVISION + torch_models.TIMM:
        model, loss_fn, _, batch = torch_models.build(name, batch_size=2, image_size=IMAGE_SIZES.get(name, 32), classes=10, device="cpu")
        yield name, model, loss_fn, (torch.randn(batch[0].shape), torch.randint(0, 10, batch[1].shape))
    yield "unet", torch_models.UNet(2, (4, 8, 16)), F.cross_entropy, (torch.randn(2, 3, 32, 32), torch.randint(0, 2, (2, 32, 32)))


def language_models():
    import transformers

    ids = torch.randint(5, 100, (2, 16))
    for class_name, options in SMALL.items():
        model_class = getattr(transformers, class_name)
        model = model_class(model_class.config_class(vocab_size=100, use_cache=False, **options)).train()
        yield class_name, model, None, {"input_ids": ids, "labels": ids.clone()}


def main():
    warnings.simplefilter("ignore")
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"
    torch.set_num_threads(1)
    trained = failed = 0
    for models in (image_models, language_models):
        torch.manual_seed(0)
        for name, model, loss_fn, batch in models():
            started, trained = time.perf_counter(), trained + 1
            try:
                captured = assert_trains_alike(ebbtide.capture, model, loss_fn, torch.optim.Adam, batch, steps=2)
                verdict = f"same bits, {len(captured.graph['ops'])} ops"
            except AssertionError as error:
                failed += 1
                verdict = f"DIFFERS: {str(error).splitlines()[0]}"
            print(f"{name:28} {verdict} ({time.perf_counter() - started:.0f} s)", flush=True)
    print(f"capture: {trained} models, {failed} differ")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
