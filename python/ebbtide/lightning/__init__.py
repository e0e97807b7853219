"""Ebbtide in Lightning: a budget over trainer.fit(), and a finder of batch sizes that predicts; see docs/trainers.md. Needs the package lightning, or
pytorch-lightning."""

from .batch_size import BatchSizeFinder, estimate
from .callback import EbbtideCallback

__all__ = ["BatchSizeFinder", "EbbtideCallback", "estimate"]
