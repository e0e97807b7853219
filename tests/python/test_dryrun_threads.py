"""What a dry run looks at while other threads train: gradients are written by autograd without the interpreter's lock."""

import sys
import threading
from pathlib import Path

import pytest
import torch

import ebbtide


@pytest.fixture
def owners(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(Path(ebbtide.__file__).parent / "dryrun_site"), *sys.path])
    from _ebbtide_dryrun.owners import Owners

    return Owners(torch)


class Watched:
    """Stands for a parameter, and notes whether its gradient was read."""

    def __init__(self):
        self.reads = 0

    @property
    def grad(self):
        self.reads += 1
        return None


class Module:
    def __init__(self, parameter):
        self._parameters, self._buffers, self._modules = {"weight": parameter}, {}, {}

    def named_parameters(self):
        return self._parameters.items()

    def named_buffers(self):
        return ()


def test_gradients_are_read_only_while_no_other_thread_stores_any(owners):
    parameter = Watched()
    module = Module(parameter)
    owners._on_registration(module, "weight", parameter)
    owners.look(1, None)
    assert parameter.reads == 1
    in_backward, looked = threading.Event(), threading.Event()

    def train():
        with owners.backward():
            in_backward.set()
            looked.wait()

    thread = threading.Thread(target=train)
    thread.start()
    in_backward.wait()
    owners.look(2, None)
    looked.set()
    thread.join()
    assert parameter.reads == 1
    owners.look(3, None)
    assert parameter.reads == 2


def test_a_look_within_a_backward_pass_of_its_own_reads_them(owners):
    parameter = Watched()
    module = Module(parameter)
    owners._on_registration(module, "weight", parameter)
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda _: owners.look(1, None))
    with owners.backward():
        x.sum().backward()
    assert parameter.reads == 1
