"""Fake tensors that stand for the user's: same storages, shapes and strides, no memory, any device."""

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..errors import CaptureError


class Fakes:
    """Makes one fake per tensor; tensors that share a storage get fakes that share one."""

    def __init__(self, mode):
        self._mode = mode
        self._storages = {}  # of the real storage -> the fake's storage, which lies on no device
        self._fakes = {}
        self._kept = []  # what the keys point at must not be freed, or addresses would be used twice

    def of(self, tensor, device=None, requires_grad=False):
        """The fake of `tensor`, as if it were on `device` (where the tensor is asked for first)."""
        if id(tensor) not in self._fakes:
            self._fakes[id(tensor)] = self._make(tensor, device)
            self._kept.append(tensor)
        fake = self._fakes[id(tensor)]
        if requires_grad and not fake.requires_grad:
            fake.requires_grad_()
        return fake

    def _make(self, tensor, device):
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
            raise CaptureError(f"a {tensor.layout} tensor cannot be captured; expected dense tensors")
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) and not isinstance(tensor, FakeTensor):
            raise CaptureError(f"a tensor of class {type(tensor).__name__} cannot be captured; expected plain tensors")
        real = tensor.untyped_storage()
        if real._cdata not in self._storages:
            self._storages[real._cdata] = torch.UntypedStorage(real.nbytes(), device="meta")
            self._kept.append(real)
        with torch.no_grad():
            shell = torch.empty(0, dtype=tensor.dtype, device="meta")
            shell.set_(self._storages[real._cdata], tensor.storage_offset(), tensor.shape, tensor.stride())
        return FakeTensor(self._mode, shell, torch.device(device or tensor.device))
