"""Whose the memory is: which addresses hold parameters, buffers, gradients and optimizer state at a moment."""

import contextlib
import gc
import threading
import weakref


class Owners:
    def __init__(self, torch):
        self.torch = torch
        self.lock = threading.RLock()  # whoever holds it knows that no further backward pass begins
        self.backwards = 0  # passes that are under way, in all threads; one within another counts once
        self.modules = {}  # id: weak reference, of modules with parameters, buffers or children
        self.leaves = {}  # id: weak reference, of tensors that gradients are accumulated into
        self.looks = []  # (allocations so far, {address of a storage: (category, name)})
        self.names = {}  # id of a parameter or buffer: its name
        self.names_of = -1  # modules that `names` was made from

    def reset(self):
        self.looks = []
        self.lock = threading.RLock()  # of a child by fork: the thread that had the old one may not be there
        self.backwards = 0

    def attach(self, late=False):
        from torch.nn.modules import module

        for thing in gc.get_objects() if late else ():
            if issubclass(type(thing), module.Module):
                self.modules.setdefault(id(thing), weakref.ref(thing))

        self._watch_copies(module.Module)
        module.register_module_parameter_registration_hook(self._on_registration)
        module.register_module_buffer_registration_hook(self._on_registration)
        module.register_module_module_registration_hook(self._on_registration)

    def _on_registration(self, module, name, value):
        self.modules.setdefault(id(module), weakref.ref(module))

    def _watch_copies(self, module_class):
        """A copy (of an average of the weights, say) or a module from a file is made without registering anything."""
        original = module_class.__setstate__

        def set_state(module, state):
            original(module, state)
            self.modules.setdefault(id(module), weakref.ref(module))

        module_class.__setstate__ = set_state

    _on_registration._torchdynamo_disable = True  # type: ignore[attr-defined]

    @contextlib.contextmanager
    def backward(self):
        """Around a backward pass: autograd stores gradients without the interpreter's lock."""
        outermost = self.torch._C._current_graph_task_id() == -1
        if outermost:
            with self.lock:
                self.backwards += 1
        try:
            yield
        finally:
            if outermost:
                with self.lock:
                    self.backwards -= 1

    def others_train(self):
        """Whether another thread may be storing gradients; while the lock is held that does not become true."""
        mine = 1 if self.torch._C._current_graph_task_id() != -1 else 0
        return self.backwards > mine

    def look(self, now, optimizer):
        if now is None:
            return
        with self.lock:
            self._look(now, optimizer)

    def _look(self, now, optimizer):
        found = {}
        with_gradients = not self.others_train()
        self._name()
        for module in self._alive():
            for name, buffer in module._buffers.items():
                self._add(found, buffer, "Buffer", self.names.get(id(buffer), name))
            for name, parameter in module._parameters.items():
                self._add_parameter(found, parameter, self.names.get(id(parameter), name), with_gradients)
        if optimizer is not None:
            self._add_optimizer(found, optimizer)
        for leaf in self.live_leaves():
            self._add_parameter(found, leaf, self.names.get(id(leaf), ""), with_gradients)
        self.looks.append((now, found))

    def _add_parameter(self, found, parameter, name, with_gradients):
        if parameter is None:
            return
        self._add(found, parameter, "Parameter", name)
        if with_gradients:
            self._add(found, parameter.grad, "Gradient", name)
        # What a parameter carries with it, as quantized ones do (quant_state.absmax).
        for key, value in list(getattr(parameter, "__dict__", {}).items()):
            self._add_all(found, value, "Parameter", f"{name}.{key}")

    def _add_optimizer(self, found, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._add_parameter(found, parameter, self.names.get(id(parameter), ""), True)  # the optimizer has just read them itself
        for key, state in list(optimizer.state.items()):
            name = self.names.get(id(key), "")
            for inner, value in state.items() if isinstance(state, dict) else ():
                self._add_all(found, value, "Optstate", f"{name}.{inner}" if name else str(inner))

    def _add_all(self, found, value, category, name, depth=3):
        """All tensors in a value: in lists and dictionaries, and in plain objects."""
        if isinstance(value, self.torch.Tensor):
            self._add(found, value, category, name)
        elif depth == 0 or value is None or isinstance(value, (int, float, str, bytes, type)):
            return
        elif isinstance(value, dict):
            for key, inner in list(value.items()):
                self._add_all(found, inner, category, f"{name}.{key}", depth - 1)
        elif isinstance(value, (list, tuple)):
            for index, inner in enumerate(value):
                self._add_all(found, inner, category, f"{name}.{index}", depth - 1)
        elif isinstance(getattr(value, "__dict__", None), dict) and not callable(value):
            for key, inner in list(vars(value).items()):
                self._add_all(found, inner, category, f"{name}.{key}", depth - 1)

    def _add(self, found, tensor, category, name):
        if not isinstance(tensor, self.torch.Tensor):
            return
        for part in self._parts(tensor):
            try:
                address = part.untyped_storage().data_ptr() if part.is_cuda else 0
            except (RuntimeError, NotImplementedError):  # subclasses without a storage of their own
                continue
            if address:
                found.setdefault(address, (category, name))

    def _parts(self, tensor, depth=4):
        """The plain tensors that a subclass is made of (DTensor, quantized ones); a plain one is its own only part."""
        flatten = getattr(tensor, "__tensor_flatten__", None)
        if flatten is None or depth == 0 or type(tensor) in (self.torch.Tensor, self.torch.nn.Parameter):
            return [tensor]
        try:
            inner = [getattr(tensor, name) for name in flatten()[0]]
        except Exception:
            return [tensor]
        return [part for one in inner if isinstance(one, self.torch.Tensor) for part in self._parts(one, depth - 1)]

    def add_leaf(self, tensor):
        self.leaves.setdefault(id(tensor), weakref.ref(tensor))

    def live_leaves(self):
        return [tensor for tensor in (reference() for reference in list(self.leaves.values())) if tensor is not None]

    def _alive(self):
        for key, reference in list(self.modules.items()):
            module = reference()
            if module is None:
                del self.modules[key]
            else:
                yield module

    def _name(self):
        """Names from the outermost modules, as state_dict has them."""
        if self.names_of == len(self.modules):
            return
        modules = list(self._alive())
        inner = {id(child) for module in modules for child in module._modules.values() if child is not None}
        self.names = {}
        for module in modules:
            if id(module) in inner:
                continue
            for name, parameter in module.named_parameters():
                self.names[id(parameter)] = name
            for name, buffer in module.named_buffers():
                self.names[id(buffer)] = name
        self.names_of = len(self.modules)
