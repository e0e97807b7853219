"""Contexts of the oracle: what may be in force around the whole program, or around some of its steps."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@contextlib.contextmanager
def flush_denormal() -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextlib.contextmanager
def one_matmul_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


CONTEXTS: dict[str, Callable[[], contextlib.AbstractContextManager[object]]] = {
    "none": contextlib.nullcontext,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast, off": lambda: torch.autocast("cpu", enabled=False),
    "deterministic": deterministic,
    "without mkldnn": lambda: torch.backends.mkldnn.flags(enabled=False),
    "sdpa by matmuls": lambda: sdpa_kernel(SDPBackend.MATH),
    "sdpa, flash": lambda: sdpa_kernel(SDPBackend.FLASH_ATTENTION),
    "double by default": lambda: default_dtype(torch.float64),
    "matmul of medium precision": lambda: one_matmul_precision("medium"),
    "denormals flushed": flush_denormal,
    "gradients enabled": torch.enable_grad,
    "saved tensors kept": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    "anomalies detected": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
}
