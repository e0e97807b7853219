"""What torch is set to when a step is called: part of what the step was captured for, or refused.

A captured step runs no Python, so what a context would do to each call, or to autograd, it cannot do; those are refused. Settings
that choose kernels or types are part of the key by which plans are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import torch
import torch.backends.mha
import torch.backends.opt_einsum  # which not every version imports by itself
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from ..capture import saved_hooks
from ..errors import CaptureError

# torch._C's getters of what kernels are chosen by. Torch versions differ in which they have.
_CHOICES = (
    "_get_deterministic_algorithms", "_get_deterministic_algorithms_warn_only", "_get_deterministic_fill_uninitialized_memory",
    "_get_mkldnn_enabled", "_get_mkldnn_deterministic", "_get_onednn_allow_tf32", "_get_nnpack_enabled", "_get_cpu_allow_fp16_reduced_precision_reduction",
    "_get_cudnn_enabled", "_get_cudnn_benchmark", "_get_cudnn_deterministic", "_get_cudnn_allow_tf32", "_get_cublas_allow_tf32",
    "_get_cublas_allow_fp16_reduced_precision_reduction", "_get_cublas_allow_bf16_reduced_precision_reduction", "_get_cublas_allow_fp16_accumulation",
    "_get_flash_sdp_enabled", "_get_mem_efficient_sdp_enabled", "_get_math_sdp_enabled", "_get_cudnn_sdp_enabled", "_get_overrideable_sdp_enabled",
    "_get_fa3_sdp_enabled", "_get_fa4_sdp_enabled", "_get_math_sdp_allow_fp16_bf16_reduction",
    "_get_float32_matmul_precision", "_get_blas_preferred_backend", "_get_linalg_preferred_backend", "is_autocast_cache_enabled",
)
_FP32_PRECISION = [(backend, op) for backend in ("generic", "mkldnn", "cuda") for op in ("all", "conv", "rnn", "matmul")]


@functools.cache
def _getters() -> list[Callable[[], Any]]:
    getters = [getattr(torch._C, name) for name in _CHOICES if hasattr(torch._C, name)]
    precision: Any = getattr(torch._C, "_get_fp32_precision_getter", None)
    for backend, op in _FP32_PRECISION if precision is not None else ():
        try:
            precision(backend, op)
        except RuntimeError:  # not every backend has every op
            continue
        getters.append(functools.partial(precision, backend, op))
    return [torch.get_default_dtype, torch.backends.mha.get_fastpath_enabled, *getters]


def contexts(device: str) -> Hashable:
    """The settings that plans are kept by. Raises CaptureError where the step would not be what plain PyTorch does here."""
    _refuse(device)
    priorities = getattr(torch._C, "_get_sdp_priority_order", None)
    return (*[get() for get in _getters()], tuple(priorities()) if priorities is not None else (), _default_device(), torch.backends.opt_einsum.enabled,
            torch.backends.opt_einsum.strategy)


def _refuse(device: str) -> None:
    if torch.is_inference_mode_enabled() or not torch.is_grad_enabled():
        raise CaptureError("the step is called where gradients are off (torch.no_grad or torch.inference_mode), where loss.backward() would raise; "
                           "expected a call outside")
    if torch._C._is_any_autocast_enabled():
        raise CaptureError("the step is called inside torch.autocast, which would lower backward and update too, and keep lowered parameters from step to "
                           "step; expected ebbtide.step(..., autocast=torch.bfloat16) and a call outside")
    if torch.is_anomaly_enabled() and torch.is_anomaly_check_nan_enabled():
        raise CaptureError("the step is called under torch.autograd.detect_anomaly, whose checks it cannot make; expected a call outside")
    hooks = saved_hooks.top()
    if hooks is not None and (device != "cpu" or any((getattr(hook, "__module__", None) or "").partition(".")[0] == "ebbtide" for hook in hooks)):
        raise CaptureError("the step is called where hooks pack what autograd saves (saved_tensors_hooks or save_on_cpu on a GPU, ebbtide.budget); "
                           "expected a call outside")
    for mode in _get_current_dispatch_mode_stack():
        raise CaptureError(f"the step is called inside {type(mode).__name__}, which would not see its ops; expected a call outside")
    for mode in _get_current_function_mode_stack():
        if type(mode) is not DeviceContext:
            raise CaptureError(f"the step is called inside {type(mode).__name__}, which would not see its calls; expected a call outside")
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise CaptureError("the step is called inside a transform of torch.func; expected a call outside")


def _default_device() -> str | None:
    for mode in reversed(_get_current_function_mode_stack()):
        if type(mode) is DeviceContext:
            return str(mode.device)
    return None
