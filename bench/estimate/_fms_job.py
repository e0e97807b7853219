"""One fine-tune of fms.csv by its own libraries, on the GPU that is there: `_fms_job.py JOB.json`. A plain program: transformers, trl's SFTTrainer, peft,
bitsandbytes and fms-acceleration's kernels. Writes to the job's "result" what torch has allocated and reserved at most, what is allocated
at the end, and what was reserved before training.

Weights are random, made where they are used, in layers of the library that would hold them. flash-attn has no wheel: torch's own copy of its kernels runs in
its place (_fms_stand_ins), behind the functions that transformers calls.
"""

import gc
import json
import os
import pathlib
import sys

import _fms_stand_ins

_fms_stand_ins.install()  # before transformers looks for it

import datasets  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402
import yaml  # noqa: E402
from _uninitialised import Uninitialised  # noqa: E402


def model_of(job):
    config = transformers.AutoConfig.for_model(**job["config"])
    config.architectures = [transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[config.model_type]]
    config.use_cache = False
    dtype = getattr(torch, job["weights_dtype"])
    is_quantized = job["method"] == "qlora_nf4"
    with torch.device("meta" if is_quantized else job["loads_on"]), Uninitialised():
        model = transformers.AutoModelForCausalLM.from_config(config, torch_dtype=dtype, attn_implementation="flash_attention_2")
    if is_quantized:
        quantize(model, dtype)
    model.tie_weights()
    return model


def quantize(model, dtype):
    """All linear layers but the head, as transformers' loader does it: 16 bits go to the device, and are quantised there."""
    import bitsandbytes as bnb

    for name, module in list(model.named_modules()):
        if not isinstance(module, torch.nn.Linear) or name == "lm_head":
            continue
        new = bnb.nn.Linear4bit(module.in_features, module.out_features, bias=module.bias is not None, compute_dtype=dtype, compress_statistics=True,
                                quant_type="nf4", device="meta")
        new.weight = bnb.nn.Params4bit(torch.empty(module.weight.shape, dtype=dtype, device="cuda"), requires_grad=False, quant_type="nf4",
                                       compress_statistics=True).to("cuda")
        model.set_submodule(name, new)
    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is None or not tensor.is_meta:
                    continue
                real = torch.empty(tensor.shape, dtype=dtype if tensor.is_floating_point() and table is module._parameters else tensor.dtype, device="cuda")
                table[name] = torch.nn.Parameter(real) if table is module._parameters else real
    for module in model.modules():
        if hasattr(module, "inv_freq"):
            module.inv_freq = module.inv_freq.float()
    model.is_loaded_in_4bit, model.quantization_method = True, "bitsandbytes"
    model.is_quantized, model.hf_device_map = True, {"": 0}
    model.hf_quantizer = type("Quantizer", (), {"is_trainable": True, "quantization_config": None})()


def plugins_of(job):
    """The configuration of fms-acceleration; None where the row has none."""
    kernels = {"fast_loss": "fused_ce_liger" if job["kernels"].endswith("liger") else True, "fast_rms_layernorm": True, "fast_rope_embeddings": True}
    is_fused = job["kernels"].startswith("foak")
    if job["method"] == "qlora_nf4":
        if job["kernels"] == "stock-kbit-prepare":
            return None
        parts = {"bitsandbytes": {"quant_type": "nf4", "no_peft_model": False}}
        if is_fused:
            parts["fused_ops_and_kernels"] = {"base_layer": "bitsandbytes", "fused_lora": True} | kernels
        return {"peft": {"quantization": parts}}
    return {"training": {"fused_ops_and_kernels": kernels}} if is_fused else None


def tokenizer_of(words):
    model = tokenizers.models.WordLevel({"<pad>": 0, "word": 1}, unk_token="<pad>")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(model), pad_token="<pad>", eos_token="<pad>")


def main():
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    framework = None
    if plugins := plugins_of(job):
        from fms_acceleration import AccelerationFramework

        path = pathlib.Path(job["result"]).with_suffix(f".{os.environ.get('RANK', 0)}.yaml")
        path.write_text(yaml.safe_dump({"plugins": plugins}))
        framework = AccelerationFramework(str(path))
    model = model_of(job)
    if job["words"] != model.config.vocab_size:
        model.resize_token_embeddings(job["words"])
    adapters = None
    if job["method"] != "full":
        import peft

        adapters = peft.LoraConfig(r=16, lora_alpha=16, lora_dropout=0.1, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM")
    length = job["seq_len"]
    data = datasets.Dataset.from_dict({name: [[1] * length] * (job["steps"] * job["microbatch"] * job["gpus"])
                                       for name in ("input_ids", "attention_mask", "labels")})
    settings = trl.SFTConfig(output_dir=str(pathlib.Path(job["result"]).parent / "out"), max_steps=job["steps"], per_device_train_batch_size=job["microbatch"],
                             gradient_checkpointing=True, bf16=job["amp"] == "bf16", fp16=job["amp"] == "fp16", optim="adamw_torch", max_grad_norm=1.0,
                             weight_decay=0.01, adam_epsilon=1e-4, logging_steps=1, save_strategy="no", report_to="none", max_seq_length=length,
                             dataset_kwargs={"skip_prepare_dataset": True}, dataloader_num_workers=0, skip_memory_metrics=False)
    if framework is not None:
        model, (adapters,) = framework.augmentation(model, settings, modifiable_args=(adapters,))
    trainer = trl.SFTTrainer(model=model, args=settings, train_dataset=data, processing_class=tokenizer_of(job["words"]), peft_config=adapters,
                             data_collator=transformers.default_data_collator)
    if framework is not None:
        for callback in framework.get_callbacks_and_ready_for_train(trainer.model, trainer.accelerator):
            trainer.add_callback(callback)
    loaded = torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    trainer.train()
    gc.collect()
    found = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(), "end": torch.cuda.memory_allocated(),
             "loaded": loaded}
    if int(os.environ.get("RANK", 0)) == 0:
        pathlib.Path(job["result"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
