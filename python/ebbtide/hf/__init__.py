"""Ebbtide in Hugging Face's Trainer, TRL's trainers and accelerate's loops; see docs/trainers.md. Needs transformers and accelerate."""

from . import accelerate_backend  # noqa: F401  says what to use in place of torch_compile_backend="ebbtide"
from .callback import EbbtideCallback, attach
from .prediction import estimate, find_batch_size

__all__ = ["EbbtideCallback", "attach", "estimate", "find_batch_size"]
