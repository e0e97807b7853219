"""Trainings for bench/parallel/ranks_bench.py: a function for each model, for captures, and as a program one rank under torchrun.

    torchrun --nproc-per-node N _ranks_job.py MODEL ddp|fsdp|fsdp=1|tp|cp|pp|pp+fsdp|tp+cp FOLDER [BATCHES no_sync|each]: three iterations, of several BATCHES
    each where that is said, whose gradients wait for the last or are reduced each; every rank writes its peaks to FOLDER.
Of two axes the first has two ranks, but for tp+cp, where the sequence has.
Modules of decoders are named as those of transformers."""

import contextlib
import functools
import json
import pathlib
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WORDS, BATCH, LENGTH, HEAD = 8000, 4, 256, 64


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Network(nn.Module):
    def __init__(self, width=1024, blocks=8):
        super().__init__()
        self.embed_tokens, self.lm_head = nn.Embedding(WORDS, width), nn.Linear(width, WORDS)
        self.layers = nn.ModuleList(Block(width) for _ in range(blocks))

    def forward(self, x):
        x = self.embed_tokens(x) if self.embed_tokens is not None else x
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(x) if self.lm_head is not None else x


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (proj(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for proj in (self.q_proj, self.k_proj, self.v_proj))
        return self.o_proj(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up_proj, self.down_proj = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.gelu(self.up_proj(x)))


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.self_attn, self.norm2, self.mlp = nn.LayerNorm(width), Attention(width), nn.LayerNorm(width), Mlp(width)

    def forward(self, x):
        x = x + self.self_attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, width=1024, blocks=8, checkpoints=False):
        super().__init__()
        self.embed_tokens, self.norm = nn.Embedding(WORDS, width), nn.LayerNorm(width)
        self.layers, self.lm_head = nn.ModuleList(Layer(width) for _ in range(blocks)), nn.Linear(width, WORDS, bias=False)
        self.checkpoints = checkpoints

    def forward(self, x):
        x = self.embed_tokens(x) if self.embed_tokens is not None else x
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpoints else layer(x)
        return self.lm_head(self.norm(x)) if self.lm_head is not None else x


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = (nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x):
        return torch.relu(x + self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x))))))


class Images(nn.Module):
    def __init__(self, width=256, blocks=6):
        super().__init__()
        self.stem, self.layers, self.head = nn.Conv2d(3, width, 3, padding=1), nn.ModuleList(Residual(width) for _ in range(blocks)), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x.mean((2, 3)))


class Adapted(nn.Module):
    """A frozen matrix with an adapter, as peft names and runs them."""

    def __init__(self, matrix, rank=16):
        super().__init__()
        self.base_layer = matrix.requires_grad_(False)
        self.lora_dropout = nn.ModuleDict({"default": nn.Dropout(0.05)})
        self.lora_A = nn.ModuleDict({"default": nn.Linear(matrix.in_features, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, matrix.out_features, bias=False)})

    def forward(self, x):
        result = self.base_layer(x)
        return result + self.lora_B["default"](self.lora_A["default"](self.lora_dropout["default"](x))) * 2.0


def adapted():
    model = Decoder().requires_grad_(False)
    for layer in model.layers:
        for name in ("q_proj", "v_proj", "o_proj"):
            setattr(layer.self_attn, name, Adapted(getattr(layer.self_attn, name)))
    return model


class Scores(nn.Module):
    """A model of transformers that is given one tensor, as often as it asks for it, and returns scores."""

    def __init__(self, kind, config, *inputs):
        super().__init__()
        import transformers

        config = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
        config.use_cache = False
        self.model, self.inputs = getattr(transformers, kind).from_config(config), inputs

    def forward(self, x):
        return self.model(**{name: x for name in self.inputs}).logits


LLAMA = {"model_type": "llama", "num_hidden_layers": 6, "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 16,
         "num_key_value_heads": 4, "vocab_size": WORDS, "max_position_embeddings": 512}
LANGUAGE = "AutoModelForCausalLM"
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_hidden_layers": 3, "num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 1408}
GPT2 = {"model_type": "gpt2", "n_layer": 6, "n_embd": 1024, "n_head": 16, "vocab_size": WORDS, "n_positions": 512}
T5 = {"model_type": "t5", "num_layers": 4, "d_model": 768, "d_kv": 64, "d_ff": 2048, "num_heads": 12, "vocab_size": WORDS, "decoder_start_token_id": 0}
VIT = {"model_type": "vit", "num_hidden_layers": 8, "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_labels": 1000}


def half_frozen():
    """What lies before the fifth layer is not trained."""
    model = Decoder()
    for module in (model.embed_tokens, *model.layers[:4]):
        module.requires_grad_(False)
    return model


AdamW = torch.optim.AdamW
Momentum = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)
# By name: the model and its optimizer.
MODELS = {"network": (Network, AdamW), "wide": (lambda: Network(2048, 4), Momentum), "decoder": (Decoder, AdamW),
          "checkpointed": (lambda: Decoder(checkpoints=True), AdamW), "frozen": (half_frozen, AdamW), "images": (Images, AdamW),
          "lora": (adapted, AdamW), "llama": (lambda: Scores(LANGUAGE, dict(LLAMA), "input_ids"), AdamW),
          "gpt2": (lambda: Scores(LANGUAGE, dict(GPT2), "input_ids"), AdamW), "mixtral": (lambda: Scores(LANGUAGE, dict(MIXTRAL), "input_ids"), AdamW),
          "t5": (lambda: Scores("AutoModelForSeq2SeqLM", dict(T5), "input_ids", "decoder_input_ids"), Momentum),
          "vit": (lambda: Scores("AutoModelForImageClassification", dict(VIT), "pixel_values"), AdamW)}


def batch_of(model, device=None, times=1, longer=1):
    if model == "images":
        return torch.zeros(8 * times, 3, 64, 64, device=device), torch.zeros(8 * times, dtype=torch.long, device=device)
    if model == "vit":
        return torch.zeros(8 * times, 3, 224, 224, device=device), torch.zeros(8 * times, dtype=torch.long, device=device)
    tokens = torch.zeros(BATCH * times, LENGTH * longer, dtype=torch.long, device=device)
    return tokens, tokens


def loss(scores, labels):
    return nn.functional.cross_entropy(scores.flatten(0, -2), labels.flatten())


def step_of(name):
    build, optimizer = MODELS[name]
    model = build()
    return model, loss, optimizer([p for p in model.parameters() if p.requires_grad]), batch_of(name)


network, wide, decoder, checkpointed, frozen, images, lora, llama, gpt2, mixtral, t5, vit = (functools.partial(step_of, name) for name in MODELS)


def whole_module():
    """A style of parallelize_module: every rank has all of it."""
    from torch.distributed.tensor import distribute_module
    from torch.distributed.tensor.parallel.style import ParallelStyle

    class Whole(ParallelStyle):
        def _apply(self, module, device_mesh):
            return distribute_module(module, device_mesh)

    return Whole()


def tensor_parallel(model, mesh=None):
    """As torchtitan has it: sequence parallel between the matrices, scores divided by words."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, parallelize_module

    mesh = mesh or init_device_mesh("cuda", (torch.distributed.get_world_size(),))
    whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    row = RowwiseParallel(output_layouts=Shard(1))
    parallelize_module(model, mesh, {
        "embed_tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)), "norm": SequenceParallel(),
        "lm_head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)})
    for layer in model.layers:
        plan = {"norm1": SequenceParallel(), "norm2": SequenceParallel(), "self_attn": whole, "mlp": whole, "mlp.down_proj": row,
                "mlp.up_proj": ColwiseParallel()}
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            matrix, path = getattr(layer.self_attn, name), f"self_attn.{name}"
            is_row = name == "o_proj"
            if isinstance(matrix, Adapted):
                plan[f"{path}.lora_A.default"] = RowwiseParallel(output_layouts=Shard(1), use_local_output=False) if is_row else whole_module()
                plan[f"{path}.lora_B.default"] = SequenceParallel(use_local_output=True) if is_row else ColwiseParallel()
                path += ".base_layer"
            plan[path] = row if is_row else ColwiseParallel()
        parallelize_module(layer, mesh, plan)
    return model


def context_of(mesh, inputs, labels):
    """The ranks share the sequences of the batch."""
    from torch.distributed.tensor.experimental import context_parallel

    buffers = [inputs] if inputs is labels else [inputs, labels]
    return context_parallel(mesh, buffers=buffers, buffer_seq_dims=[1] * len(buffers))


def blocks_of(model):
    """The modules of its lists, not those within them."""
    numbered = [name for name, _ in model.named_modules() if name.rpartition(".")[2].isdigit()]
    return [model.get_submodule(name) for name in numbered if not any(part.isdigit() for part in name.split(".")[:-1])]


def sharded(model, **options):
    from torch.distributed.fsdp import fully_shard

    for block in blocks_of(model):
        fully_shard(block, **options)
    return fully_shard(model, **options)


def spread(model, layout, rank, mesh):
    """What is trained on this rank in place of the model."""
    if layout == "ddp":
        return nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    if layout == "tp":
        return tensor_parallel(model)
    if layout == "fsdp=1":
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        policy = ModuleWrapPolicy({type(block) for block in blocks_of(model)})
        return FullyShardedDataParallel(model, auto_wrap_policy=policy, use_orig_params=True, device_id=rank)
    if layout == "tp+cp":
        return sharded(tensor_parallel(model, mesh["tp"]), mesh=mesh["cp"])
    return sharded(model)


def stage_of(model, rank, ranks):
    """The part of a model that one stage has."""
    each = len(model.layers) // ranks
    model.layers = model.layers[rank * each:(rank + 1) * each]
    if rank > 0:
        model.embed_tokens = None
    if rank + 1 < ranks:
        model.lm_head = None
        if hasattr(model, "norm"):
            model.norm = None
    return model


def train_stage(name, optimizer, model, rank, ranks, shards):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    device, group = torch.device("cuda", rank), None
    if shards > 1:
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cuda", (ranks // shards, shards), mesh_dim_names=("pp", "dp"))
        rank, ranks, group = rank // shards, ranks // shards, mesh.get_group("pp")
    model = stage_of(model, rank, ranks).cuda()
    if shards > 1:
        model = sharded(model, mesh=mesh["dp"], reshard_after_forward=False)  # as torchtitan has it beside a pipeline
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    stage = PipelineStage(model, rank, ranks, device, group=group)
    schedule = Schedule1F1B(stage, ranks, loss_fn=loss)
    optimizer = optimizer([p for p in model.parameters() if p.requires_grad])
    for _ in range(3):
        optimizer.zero_grad()
        inputs, labels = batch_of(name, "cuda", ranks)  # as many microbatches as stages
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=labels if rank + 1 == ranks else None)
        optimizer.step()


@contextlib.contextmanager
def unreduced(model, layout):
    """Gradients are kept as they are, as accelerate does it."""
    if layout == "fsdp":
        model.set_requires_gradient_sync(False)
        yield
        model.set_requires_gradient_sync(True)
    else:
        with model.no_sync():
            yield


def train(name, layout, folder, batches="1", sync="each"):
    torch.distributed.init_process_group("nccl")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    torch.cuda.set_device(rank)
    build, optimizer = MODELS[name]
    if layout in ("pp", "pp+fsdp"):
        train_stage(name, optimizer, build(), rank, ranks, 1 if layout == "pp" else ranks // 2)
    else:
        context, longer, mesh = contextlib.nullcontext, 1, None
        if layout == "cp":
            from torch.distributed.device_mesh import DeviceMesh

            longer = ranks  # a captured step is one rank's part of the sequence
            mesh = DeviceMesh.from_group(torch.distributed.new_group(), "cuda")
        if layout == "tp+cp":
            from torch.distributed.device_mesh import init_device_mesh

            longer, mesh = 2, init_device_mesh("cuda", (2, ranks // 2), mesh_dim_names=("cp", "tp"))
        loss_context = contextlib.nullcontext
        if layout in ("tp", "tp+cp"):
            from torch.distributed.tensor.parallel import loss_parallel as loss_context
        model = spread(build().cuda(), layout, rank, mesh)
        if layout != "ddp":
            torch.cuda.empty_cache()  # of the whole model, which was there before its shards
            torch.cuda.reset_peak_memory_stats()
        optimizer = optimizer([p for p in model.parameters() if p.requires_grad])
        for _ in range(3):
            optimizer.zero_grad()
            for batch in range(int(batches)):
                inputs, labels = batch_of(name, "cuda", longer=longer)
                if layout in ("cp", "tp+cp"):
                    context = functools.partial(context_of, mesh if layout == "cp" else mesh["cp"], inputs, labels)
                waits = sync == "no_sync" and batch + 1 < int(batches)
                with context(), loss_context(), unreduced(model, layout) if waits else contextlib.nullcontext():
                    (loss(model(inputs), labels) / int(batches) if int(batches) > 1 else loss(model(inputs), labels)).backward()
            optimizer.step()
    peaks = [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]
    (pathlib.Path(folder) / f"{rank}.json").write_text(json.dumps(peaks))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    train(*sys.argv[1:])
