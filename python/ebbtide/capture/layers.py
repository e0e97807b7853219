"""Which module an op belongs to, in the forward pass and, by autograd's sequence numbers, in the backward pass."""

import bisect
import contextlib

import torch


class Layers:
    """Follows the modules that are being called. Autograd numbers the nodes it makes in forward, in order, and the
    node that runs in backward still knows its number; so whoever was being called when the number was given owns
    both."""

    def __init__(self, model):
        self._paths = {id(module): path for path, module in reversed(list(model.named_modules(remove_duplicate=False)))}
        self._stack = [""]
        self._first_numbers, self._owners = [0], [""]
        self._last_backward = ""

    @contextlib.contextmanager
    def followed(self):
        """Notices every module call inside; hooks are global, so that the modules stay as they are."""
        enter = torch.nn.modules.module.register_module_forward_pre_hook(self._called)
        leave = torch.nn.modules.module.register_module_forward_hook(self._returned)
        try:
            yield self
        finally:
            enter.remove()
            leave.remove()

    def forward(self):
        """The layer whose forward code is running."""
        return self._stack[-1]

    def current(self):
        """The layer that was called last, in forward or backward."""
        return self._stack[-1] or self._last_backward

    def backward(self):
        """The layer whose forward code made the autograd node that is running."""
        node = torch._C._current_autograd_node()
        if node is not None:
            number = node._sequence_nr()
            if number < 2**62:  # the nodes that gather a parameter's gradient come after all others
                place = bisect.bisect_right(self._first_numbers, number) - 1
                self._last_backward = self._owners[place]
        return self._last_backward

    @contextlib.contextmanager
    def inside(self, path):
        """What is called inside belongs to `path`, though no module of that name is called."""
        self._push(path)
        try:
            yield
        finally:
            self._leave()

    def _called(self, module, _inputs):
        if id(module) in self._paths:  # other threads may call modules of theirs meanwhile
            self._push(self._paths[id(module)])

    def _returned(self, module, *_):
        if id(module) in self._paths:
            self._leave()

    def _push(self, path):
        self._stack.append(path)
        self._mark()

    def _leave(self):
        if len(self._stack) > 1:
            self._stack.pop()
        self._mark()

    def _mark(self):
        self._first_numbers.append(torch.autograd._get_sequence_nr())
        self._owners.append(self._stack[-1])
