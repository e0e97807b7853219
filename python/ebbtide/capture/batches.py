"""One training step at several batches: the example batch, cut or continued along its first dimension."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ..errors import CaptureError
from .step import AS_IT_IS, CapturedStep, CaptureOptions, capture_step


def batch_size_of(batch: Any) -> int:
    """The first dimension of the batch's first tensor that has one."""
    for leaf in tree_leaves(_plain(batch)):
        if isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] > 0:
            return leaf.shape[0]
    raise CaptureError("the batch has no tensor with a first dimension; expected one, which counts the samples")


def resized(batch: Any, size: int) -> Any:
    """The batch with `size` samples. Every tensor whose first dimension is that of the batch gets a new one, in the same
    order of memory; all else stays as it is. The new tensors have no values: a capture asks for none."""
    batch = _plain(batch)
    present = batch_size_of(batch)

    def resize(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dim() == 0 or leaf.shape[0] != present:
            return leaf
        order = sorted(range(leaf.dim()), key=lambda d: -leaf.stride(d))
        shape = (size, *leaf.shape[1:])
        return torch.empty_permuted(shape, order, dtype=leaf.dtype, device="meta", requires_grad=leaf.requires_grad)

    return tree_map(resize, batch)


def telling_batches(size: int) -> tuple[int, int, int]:
    """Two batches whose captures tell those of all others, and a third that shows whether they do. Not 1, at which
    libraries take shortcuts; no multiples of each other, so that rounding shows."""
    size = max(size, 2)
    return size, 2 * size + 1, 3 * size + 5


def capture_batches(model: torch.nn.Module, loss_fn: Any, optimizer: torch.optim.Optimizer | None, example_batch: Any,
                    batches: Sequence[int] | None = None,
                    options: CaptureOptions = AS_IT_IS) -> list[CapturedStep]:
    """One ebbtide.capture for each of `batches`; without them, for those that tell all others (docs/capture.md)."""
    batches = batches or telling_batches(batch_size_of(example_batch))
    if options.device is None:
        device = next((p.device for p in model.parameters() if p.device.type != "meta"), None)
        options = dataclasses.replace(options, device=device)
    return [capture_step(model, loss_fn, optimizer, resized(example_batch, batch), options) for batch in batches]


def _plain(batch: Any) -> Any:
    return dict(batch) if isinstance(batch, Mapping) else batch
