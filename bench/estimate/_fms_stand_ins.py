"""What the libraries of fms.csv's rows import and cannot be had here.

flash-attn: its functions as transformers calls them, by torch's own copy of the same kernels: what is made, saved and taken meanwhile is the same.
triton.ops: bitsandbytes 0.43 imports two functions of it for int8 layers, which no row has; newer Tritons are without."""

import importlib.machinery
import importlib.metadata
import sys
import types

VERSION = "2.7.3"


def _attention():
    import torch

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, query, key, value, scale, causal, left, right):
            out, lse, seed, offset, _ = torch.ops.aten._flash_attention_forward(
                query, key, value, None, None, query.shape[1], key.shape[1], 0.0, causal, False, scale=scale,
                window_size_left=left if left >= 0 else None, window_size_right=right if right >= 0 else None)
            ctx.save_for_backward(query, key, value, out, lse, seed, offset)
            ctx.settings = (query.shape[1], key.shape[1], scale, causal, left, right)
            return out

        @staticmethod
        def backward(ctx, gradient):
            query, key, value, out, lse, seed, offset = ctx.saved_tensors
            most_q, most_k, scale, causal, left, right = ctx.settings
            found = torch.ops.aten._flash_attention_backward(
                gradient.contiguous(), query, key, value, out, lse, None, None, most_q, most_k, 0.0, causal, seed, offset, scale=scale,
                window_size_left=left if left >= 0 else None, window_size_right=right if right >= 0 else None)
            return (*found, None, None, None, None)

    return Attention


def flash_attn_func(q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False, **_):
    if dropout_p or softcap or alibi_slopes is not None:
        raise NotImplementedError("flash-attn's stand-in: neither dropout nor caps nor slopes")
    return _attention().apply(q, k, v, softmax_scale or q.shape[-1] ** -0.5, causal, *window_size)


def _refused(*_, **__):
    raise NotImplementedError("a stand-in: expected batches without padding, and no int8 layers")


def install():
    """As an installed package, by name and version."""
    def module(name, **members):
        made = types.ModuleType(name)
        made.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        made.__path__ = []
        for key, value in members.items():
            setattr(made, key, value)
        sys.modules[name] = made

    module("flash_attn", __version__=VERSION, flash_attn_func=flash_attn_func, flash_attn_varlen_func=_refused)
    module("flash_attn.bert_padding", index_first_axis=_refused, pad_input=_refused, unpad_input=_refused)
    module("triton.ops")
    module("triton.ops.matmul_perf_model", early_config_prune=_refused, estimate_matmul_time=_refused)
    version, names = importlib.metadata.version, importlib.metadata.packages_distributions
    importlib.metadata.version = lambda name: VERSION if name in ("flash_attn", "flash-attn") else version(name)
    importlib.metadata.packages_distributions = lambda: dict(names()) | {"flash_attn": ["flash-attn"]}
