"""Triton's kernels, which no operator of torch's stands for. What they are given is all that they can write: only that becomes unknown,
where a launch from elsewhere makes everything unknown (src/phantom/core/values.h). It is also what they are timed by, as one operation that goes
through all of it once: whatever blocks a tuner tries, the work is the same."""

import ctypes
import importlib.abc
import sys

# Where a launch passes through Python: module, class, method, and how many of its arguments are not the kernel's; None: a way around
# these, which is not taken.
_PLACES = {
    "triton.backends.nvidia.driver": ("CudaLauncher", "__call__", 9),
    "torch._inductor.runtime.static_triton_launcher": ("StaticallyLaunchedTritonKernel", "run", 4),
    "torch._inductor.runtime.triton_heuristics": ("CachingAutotuner", "_build_fast_launcher", None),
    "torch._inductor.runtime.static_cuda_launcher": ("StaticallyLaunchedCudaKernel", "run", 4),
}
_ADDRESSES = 1 << 32  # a number from here on may be one
_LARGEST_TABLE = 1 << 16  # bytes of a tensor that may hold addresses
_READ, _BYTE = 0, 0  # a role of src/phantom/core/declare.h, a type of c10::ScalarType


class _Tensor(ctypes.Structure):
    """ebbtide_phantom_tensor of src/phantom/core/declare.h."""

    _fields_ = [("storage", ctypes.c_void_p), ("storage_bytes", ctypes.c_size_t), ("sizes", ctypes.POINTER(ctypes.c_int64)), ("dims", ctypes.c_int),
                ("scalar_type", ctypes.c_int), ("item_size", ctypes.c_size_t), ("role", ctypes.c_int)]


class Touched:
    """Memory that a kernel is given: a storage, its bytes, and how many of them the tensor has."""

    def __init__(self):
        self.parts = []

    def add(self, storage, bytes_of_tensor):
        self.parts.append((storage.data_ptr(), storage.nbytes(), min(bytes_of_tensor, storage.nbytes())))

    def tensors(self):
        """As an array of C, and what has to live as long."""
        sizes = [(ctypes.c_int64 * 1)(used) for _, _, used in self.parts]
        rows = (_Tensor * len(sizes))(*((address, size, bound, 1, _BYTE, 1, _READ) for (address, size, _), bound in zip(self.parts, sizes)))
        return rows, sizes


class Launches:
    def __init__(self, torch):
        self.torch = torch
        self.phantom = ctypes.PyDLL(None)
        self.phantom.ebbtide_phantom_forget.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.phantom.ebbtide_phantom_read.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
        self.phantom.ebbtide_phantom_op_end.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]

    def attach(self):
        for name in _PLACES:
            if name in sys.modules:
                self.wrap(sys.modules[name])
        sys.meta_path.insert(0, _OnImport(self))

    def wrap(self, module):
        owner, method, first = _PLACES[module.__name__]
        kind = getattr(module, owner, None)
        original = getattr(kind, method, None)
        if original is None or hasattr(original, "_ebbtide_wrapped"):
            return

        def launch(kernel, *arguments, **keywords):
            if first is None:
                return None
            touched = Touched()
            if keywords or not self._reach(arguments[first:], touched):
                return original(kernel, *arguments, **keywords)
            self.phantom.ebbtide_phantom_enter()
            if touched.parts:
                self.phantom.ebbtide_phantom_op_begin()
            try:
                return original(kernel, *arguments)
            finally:
                if touched.parts:
                    rows, _sizes = touched.tensors()
                    self.phantom.ebbtide_phantom_op_end(b"triton", rows, len(rows))
                self.phantom.ebbtide_phantom_leave()
                for address, size, _ in touched.parts:
                    self.phantom.ebbtide_phantom_forget(address, size)

        launch._ebbtide_wrapped = True
        setattr(kind, method, launch)

    def _reach(self, arguments, touched):
        """Adds the memory that a kernel with these arguments may write. False: nobody can tell."""
        for argument in arguments:
            if isinstance(argument, self.torch.Tensor):
                if argument.is_cuda and not self._reach_of(argument, touched):
                    return False
            elif isinstance(argument, (tuple, list)):
                if not self._reach(argument, touched):
                    return False
            elif isinstance(argument, int):
                if abs(argument) >= _ADDRESSES:
                    return False
            elif not isinstance(argument, (float, str, bytes, type(None), self.torch.dtype)):
                base = getattr(argument, "base", None)  # a descriptor of a tensor
                if not isinstance(base, self.torch.Tensor) or not self._reach((base,), touched):
                    return False
        return True

    def _reach_of(self, tensor, touched):
        if type(tensor) not in (self.torch.Tensor, self.torch.nn.Parameter):
            return False
        storage = tensor.untyped_storage()
        touched.add(storage, tensor.numel() * tensor.element_size())
        return not (tensor.dtype in (self.torch.int64, self.torch.uint64) and self._holds_addresses(*touched.parts[-1][:2]))

    def _holds_addresses(self, address, size):
        if size > _LARGEST_TABLE or size % 8:
            return False
        content = (ctypes.c_uint64 * (size // 8))()
        origin = ctypes.c_uint32()
        if not self.phantom.ebbtide_phantom_read(address, size, content, ctypes.byref(origin)):
            return False
        return any(_ADDRESSES <= word < 1 << 48 for word in content)


class _OnImport(importlib.abc.MetaPathFinder):
    def __init__(self, launches):
        self.launches = launches

    def find_spec(self, name, path=None, target=None):
        if name not in _PLACES:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self and hasattr(finder, "find_spec") else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self.launches)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, loader, launches):
        self.loader, self.launches = loader, launches

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.launches.wrap(module)
