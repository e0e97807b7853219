"""Whose the memory is: which addresses hold parameters, buffers, gradients and optimizer state at a moment."""

import weakref


class Owners:
    def __init__(self, torch):
        self.torch = torch
        self.modules = {}  # id: weak reference, of modules with parameters, buffers or children
        self.looks = []  # (allocations so far, {address of a storage: (category, name)})
        self.names = {}  # id of a parameter or buffer: its name
        self.names_of = -1  # modules that `names` was made from

    def reset(self):
        self.looks = []

    def attach(self):
        from torch.nn.modules import module

        module.register_module_parameter_registration_hook(self._on_registration)
        module.register_module_buffer_registration_hook(self._on_registration)
        module.register_module_module_registration_hook(self._on_registration)

    def _on_registration(self, module, name, value):
        self.modules.setdefault(id(module), weakref.ref(module))

    _on_registration._torchdynamo_disable = True  # type: ignore[attr-defined]

    def look(self, now, optimizer):
        if now is None:
            return
        found = {}
        self._name()
        for module in self._alive():
            for name, buffer in module._buffers.items():
                self._add(found, buffer, "Buffer", self.names.get(id(buffer), name))
            for name, parameter in module._parameters.items():
                self._add_parameter(found, parameter, self.names.get(id(parameter), name))
        if optimizer is not None:
            self._add_optimizer(found, optimizer)
        self.looks.append((now, found))

    def _add_parameter(self, found, parameter, name):
        if parameter is None:
            return
        self._add(found, parameter, "Parameter", name)
        self._add(found, parameter.grad, "Gradient", name)

    def _add_optimizer(self, found, optimizer):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                name = self.names.get(id(parameter), "")
                self._add_parameter(found, parameter, name)
                state = optimizer.state.get(parameter) if hasattr(optimizer.state, "get") else None
                for key, value in state.items() if isinstance(state, dict) else ():
                    self._add(found, value, "Optstate", f"{name}.{key}" if name else str(key))

    def _add(self, found, tensor, category, name):
        torch = self.torch
        if not isinstance(tensor, torch.Tensor) or not tensor.is_cuda:
            return
        try:
            address = tensor.untyped_storage().data_ptr()
        except (RuntimeError, NotImplementedError):  # subclasses without a storage of their own
            return
        if address:
            found.setdefault(address, (category, name))

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
