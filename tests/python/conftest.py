"""What all Python tests share: property tests that are the same on every run and do not look at the clock; fixtures."""

import json
import os
import pathlib
import signal

import hypothesis
import pytest
from support.plan_command import timed_graph

# PyTorch's own kernels for bfloat16 end the process where a machine tells of AMX and does not have it.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

hypothesis.settings.register_profile("ebbtide", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("ebbtide")
# Tests that want a cache of their own name it by XDG_CACHE_HOME, which this would go before.
os.environ.pop("EBBTIDE_CACHE", None)


@pytest.fixture(scope="session")
def checkout():
    return pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def graph(tmp_path):
    """The path of a file with the step of timed_graph."""
    path = tmp_path / "step.json"
    path.write_text(json.dumps(timed_graph()))
    return path


@pytest.fixture
def one_thread():
    """For comparisons of bits: the order of additions depends on the number of threads."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def interrupts():
    """Ctrl-C is KeyboardInterrupt, also where this runs in the background: shells have it ignored there, and that is inherited."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def own_cache(tmp_path_factory, monkeypatch):
    """Nothing is kept from other runs."""
    folder = os.environ.get("EBBTIDE_TEST_CACHE") or str(tmp_path_factory.getbasetemp() / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", folder)
