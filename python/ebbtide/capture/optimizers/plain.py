"""An optimizer whose update is not recorded: PyTorch's own `optimizer.step()` is called behind the captured step, which gives its gradients out."""

import inspect

from ...errors import CaptureError


class PlainUpdate:
    """Takes the place of an Update. `why`: what keeps the update from being recorded, in a few words."""

    def __init__(self, optimizer, why):
        needed = inspect.signature(optimizer.step).parameters.get("closure")
        if needed is not None and needed.default is inspect.Parameter.empty:
            raise CaptureError(why)  # it evaluates the model as often as it likes
        self.optimizer, self.why = optimizer, why
        self.name = type(optimizer).__name__.lower()
        self.gradients = []  # (name of the parameter, its gradient)

    def record(self, recorder, tracing, parameters, declare_state):
        """Records nothing; what is to be given to the optimizer is in `gradients` afterwards."""
        self.gradients = [(name, fake.grad) for _, fake, name in parameters.values() if fake.grad is not None]

    def scalar_values(self, steps=None):
        return []

    def counted(self):
        return []

    def still_fits(self):
        """Whatever the optimizer becomes, its own step() is what runs."""
        return True
