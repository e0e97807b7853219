"""Values that do not depend on the data: positions, masks and other tensors that the model's code makes from nothing
but numbers. Where that code asks for such a value, the recorded calls that led to it are run for real, on the CPU."""

import contextlib

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_map_only

from .record import Ref

_LARGEST = 1 << 24  # bytes of a tensor that is worked out
# These look at the shape of their first argument, not at its contents.
_SHAPE_ONLY = {"zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"}
_COMPARISONS = {"lt": lambda low, high, x: (low < x, high < x), "gt": lambda low, high, x: (low > x, high > x),
                "le": lambda low, high, x: (low <= x, high <= x), "ge": lambda low, high, x: (low >= x, high >= x)}
_BELOW_ONE = 1 - 2**-24  # the largest sample of a uniform draw


class KnownValues:
    """Answers for the tensors of one recorder."""

    def __init__(self, recorder):
        self._recorder = recorder
        self.asked = {}  # id -> (tensor of the user's, a copy): those whose values decided what the code did

    def of(self, fake):
        """The value as a real tensor, or None where it depends on data or on chance."""
        number = self._recorder.known(fake)
        if number is None:
            return None
        certain = self._comparison_with_chance(number)
        if certain is not None:
            return certain
        needed = self._calls_behind(number)
        return self._run(needed, number) if needed is not None else None

    def number(self, fake):
        """The value of a tensor of one element, or None."""
        value = self.of(fake)
        if value is None:
            return None
        with _disable_current_modes():
            return value.item()

    @contextlib.contextmanager
    def not_called_fake(self):
        """Libraries avoid questions about values when they are given fakes. Where the value is known there is no need,
        and the code takes the way that it takes in training."""
        known = self

        class Meta(type):
            def __instancecheck__(cls, tensor):
                return isinstance(tensor, FakeTensor) and known.of(tensor) is None

        original = torch._subclasses.FakeTensor
        torch._subclasses.FakeTensor = Meta("FakeTensor", (), {})
        try:
            yield
        finally:
            torch._subclasses.FakeTensor = original

    def maker(self, fake):
        """The op that wrote a tensor last; None where it is not known."""
        number = self._recorder.known(fake)
        places = self._recorder.writers.get(self._recorder.tensors[number]["storage"], ()) if number is not None else ()
        return self._recorder.ops[places[-1]] if places else None

    def _calls_behind(self, number):
        """The recorded calls that the tensor's storage comes from, in order; None where they need data."""
        recorder = self._recorder
        needed, seen, waiting = set(), set(), [recorder.tensors[number]["storage"]]
        while waiting:
            storage = waiting.pop()
            if storage in seen:
                continue
            seen.add(storage)
            if recorder.storages[storage]["bytes"] > _LARGEST:
                return None
            if recorder.exists_before(storage) and storage not in recorder.constants:
                return None
            for place in recorder.writers.get(storage, ()):
                op = recorder.ops[place]
                if op.get("random"):
                    return None
                needed.add(place)
                inputs = op["inputs"][1:] if op["kind"] in _SHAPE_ONLY else op["inputs"]
                waiting += [recorder.tensors[t]["storage"] for t in inputs]
        return sorted(needed)

    def _run(self, places, number):
        recorder, values = self._recorder, {}

        def value(reference):
            if reference.number not in values:
                values[reference.number] = self._stand_in(reference.number)
            return values[reference.number]

        with _disable_current_modes(), torch.no_grad():
            for place in places:
                function, args, kwargs = recorder.calls[place]
                args, kwargs = tree_map_only(Ref, value, (args, kwargs))
                args, kwargs = tree_map_only(torch.device, lambda _: torch.device("cpu"), (args, kwargs))
                result = function(*args, **kwargs)
                results = [r for r in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(r, torch.Tensor)]
                values.update(zip(recorder.ops[place]["outputs"], results))
            return value(Ref(number))

    def _stand_in(self, number):
        """A constant's value; or, for an argument that is looked at for its shape only, any tensor of that shape."""
        tensor = self._recorder.tensors[number]
        constant = self._recorder.constants.get(tensor["storage"])
        if constant is not None:
            if tensor["storage"] not in self._recorder.fresh:
                self.asked[id(constant)] = constant, constant.detach().clone()
            return constant.detach().cpu().clone()
        return torch.empty(tensor["shape"], dtype=getattr(torch, tensor["dtype"]))

    def _comparison_with_chance(self, number):
        """`torch.rand([]) < 0`, as layer drop with probability 0 asks it, has one answer."""
        made = self._maker(number)
        if made is None or made["kind"] not in _COMPARISONS or len(made["inputs"]) != 1:
            return None
        drawn = self._maker(made["inputs"][0])
        other = made["arguments"].get("other")
        if drawn is None or drawn["kind"] != "rand" or not isinstance(other, (int, float)):
            return None
        at_least, at_most = _COMPARISONS[made["kind"]](0.0, _BELOW_ONE, other)
        if at_least != at_most:
            return None
        with _disable_current_modes():
            return torch.tensor(at_least)

    def _maker(self, number):
        """The one op that wrote a tensor's storage."""
        places = self._recorder.writers.get(self._recorder.tensors[number]["storage"], ())
        return self._recorder.ops[places[0]] if len(places) == 1 else None
