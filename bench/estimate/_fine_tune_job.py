"""One fine-tune as its libraries do it, on the GPU that is there: `_fine_tune_job.py JOB.json`. Writes to the job's "result" what torch has allocated and
reserved at most, and what is allocated at the end.

The model has random weights, in layers of the library that would hold it; the loop is that of transformers' Trainer.
"""

import json
import pathlib
import sys

import accelerate
import torch
import transformers


def model_of(job):
    """On the GPU, in the type of its weights."""
    folder = pathlib.Path(job["folder"])
    config = transformers.AutoConfig.from_pretrained(folder)
    dtype = getattr(torch, job["dtype"])
    if "liger" in (job["kernels"], job["loss"]):
        from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN

        rest = job["kernels"] == "liger"
        MODEL_TYPE_TO_APPLY_LIGER_FN[config.model_type](rope=rest, swiglu=rest, rms_norm=rest, cross_entropy=rest and job["loss"] != "liger",
                                                        fused_linear_cross_entropy=job["loss"] == "liger")
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=job["attention"])
    if job["quantize"] in ("nf4", "int8"):
        quantize(model, job["quantize"], dtype)
    materialise(model)
    if job["quantize"] == "fp8":
        import torchao

        torchao.quantize_(model, torchao.quantization.Float8WeightOnlyConfig(),
                          lambda module, name: isinstance(module, torch.nn.Linear) and not name.endswith("lm_head"))
    if job["quantize"]:
        model.requires_grad_(False)
    if job["loss"] == "chunked":
        cut_cross_entropy(model)
    return model


def materialise(model):
    """As from_pretrained has them on the device: each once. A model that is made there has twice what is tied, until it is."""
    seen = {}
    for module in model.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in table.items():
                if tensor is None or not tensor.is_meta:
                    continue
                if id(tensor) not in seen:
                    real = torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
                    seen[id(tensor)] = (torch.nn.Parameter(real) if table is module._parameters else real), tensor  # kept, so that no other has its id
                table[name] = seen[id(tensor)][0]
    model.tie_weights()


def cut_cross_entropy(model):
    """The loss by the library's function, as its own patches of transformers' models call it."""
    import types

    from cut_cross_entropy import linear_cross_entropy
    from transformers.modeling_outputs import CausalLMOutputWithPast

    def forward(self, labels, **batch):
        hidden = self.model(**batch, use_cache=False).last_hidden_state
        return CausalLMOutputWithPast(loss=linear_cross_entropy(hidden, self.lm_head.weight, labels.to(hidden.device), shift=True))

    model.forward = types.MethodType(forward, model)


def quantize(model, how, dtype):
    """All linear layers but the head, one after the other, as the library's own loader does it; nothing is trained then."""
    import bitsandbytes as bnb

    for name, module in list(model.named_modules()):
        if not isinstance(module, torch.nn.Linear) or name == "lm_head":
            continue
        weight = torch.empty(module.weight.shape, dtype=dtype, device="cuda")
        if how == "nf4":
            new = bnb.nn.Linear4bit(module.in_features, module.out_features, bias=False, compute_dtype=dtype, compress_statistics=True, quant_type="nf4",
                                    device="meta")
            new.weight = bnb.nn.Params4bit(weight, requires_grad=False, quant_type="nf4", compress_statistics=True)
        else:
            new = bnb.nn.Linear8bitLt(module.in_features, module.out_features, bias=False, has_fp16_weights=False, device="meta")
            new.weight = bnb.nn.Int8Params(weight, requires_grad=False, has_fp16_weights=False)
        model.set_submodule(name, new.cuda())


class Both:
    """Two optimizers as one."""

    def __init__(self, *parts):
        self.parts = parts

    def step(self):
        for part in self.parts:
            part.step()

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()


def optimizer_of(name, parameters):
    if name.startswith("adamw_bnb") or name.startswith("paged"):
        import bitsandbytes as bnb

        return (bnb.optim.PagedAdamW8bit if name == "paged" else bnb.optim.AdamW8bit)(parameters, lr=1e-4)
    if name == "lion":
        import bitsandbytes as bnb

        return bnb.optim.Lion(parameters, lr=1e-4)
    if name == "adafactor":
        return transformers.optimization.Adafactor(parameters, scale_parameter=False, relative_step=False, lr=1e-4)
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-4)
    matrices, rest = [p for p in parameters if p.ndim == 2], [p for p in parameters if p.ndim != 2]
    if name == "muon":
        return Both(torch.optim.Muon(matrices, lr=1e-4), torch.optim.AdamW(rest, lr=1e-4))
    if name == "galore":
        from galore_torch import GaLoreAdamW

        return GaLoreAdamW([{"params": rest}, {"params": matrices, "rank": 128, "update_proj_gap": 200, "scale": 0.25, "proj_type": "std"}], lr=1e-4)
    return torch.optim.AdamW(parameters, lr=1e-4, fused=True if name == "adamw_torch_fused" else None)


def main():
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    model = model_of(job)
    if job["lora"]:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(r=job["lora"], lora_alpha=16, target_modules=job["targets"], task_type="CAUSAL_LM"))
    if job["checkpoint"]:
        model.gradient_checkpointing_enable({"use_reentrant": job["checkpoint"] == "reentrant"})
        if job["lora"]:
            model.enable_input_require_grads()
    model.config.use_cache = False
    model.train()
    optimizer = optimizer_of(job["optimizer"], [p for p in model.parameters() if p.requires_grad])
    tokens = torch.randint(0, model.config.vocab_size, (job["batch"], job["length"]))
    positions = torch.arange(job["length"] // 2).repeat(job["batch"], 2)  # two texts in a row
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        for _ in range(job["accumulate"]):
            beside = {"position_ids": positions} if job["packing"] else {"attention_mask": torch.ones_like(tokens)}
            batch = {name: tensor.to("cuda") for name, tensor in ({"input_ids": tokens} | beside | {"labels": tokens}).items()}
            with torch.autocast("cuda", torch.bfloat16, enabled=job["autocast"]):
                outputs = model(**batch)
            # As accelerate hands them out, and the Trainer takes no more than the loss of them.
            loss = (accelerate.utils.convert_to_fp32(outputs) if job["autocast"] else outputs).loss
            del outputs
            loss.backward()
            loss = loss.detach()
        if job["clip"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    found = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(), "end": torch.cuda.memory_allocated()}
    pathlib.Path(job["result"]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
