"""Races of PyTorch programs on the phantom GPU, found through the observer of operators. Each test is one program."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from support.on_phantom import CALM_END, needs_phantom, run_program, statistics_in

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = needs_phantom

HEAD = CALM_END + """\
import torch
from ebbtide import phantom_observer
phantom_observer.start()
main, side = torch.cuda.default_stream(), torch.cuda.Stream()
def sin(x, times=1):
    for _ in range(times):
        x = x.sin()
    return x
"""
LINES = HEAD.count("\n")


class Ran:
    """The phantom's statistics of a program, and its races as (name, line, name, line)."""

    def __init__(self, code, folder, **variables):
        done = run_program(HEAD + textwrap.dedent(code).lstrip("\n"), folder, EBBTIDE_PHANTOM_CHECK="race",
                           **{"PYTHONPATH": str(ROOT / "python"), **variables})
        (self.statistics,) = statistics_in(folder)
        self.output, self.errors = done.stdout, done.stderr

        def line(site):
            where, colon, number = site["frame"].rpartition(":")
            assert not colon or where.endswith(str(folder / "program.py")), site
            return int(number) - LINES if colon else None

        self.races = [
            (race["first"]["name"], line(race["first"]), race["second"]["name"], line(race["second"]))
            for race in self.statistics["races"]
        ]


SIDE_STREAM = """
x = torch.ones(1 << 20, device="cuda")
side.wait_stream(main)
with torch.cuda.stream(side):
    y = x.exp()
{between}
z = y.sin()
"""


def test_a_missing_wait_is_told_with_both_operators_and_lines(tmp_path):
    ran = Ran(SIDE_STREAM.format(between=""), tmp_path)
    assert ran.races == [("aten::exp", 4, "aten::sin", 6)]
    (race,) = ran.statistics["races"]
    assert race["bytes"] == 4 << 20
    assert race["first"]["access"] == "write" and race["second"]["access"] == "read"
    assert race["first"]["stream"] != race["second"]["stream"] == 0
    assert ran.statistics["undeclared_launches"] == 0 < ran.statistics["launches"]


@pytest.mark.parametrize(
    "between",
    [
        "main.wait_stream(side)",
        "main.wait_event(side.record_event())",
        "side.synchronize()",
        "torch.cuda.synchronize()",
        "y.cpu() if False else side.record_event().synchronize()",
        "while not side.query(): pass",
    ],
)
def test_every_kind_of_wait_is_one(tmp_path, between):
    ran = Ran(SIDE_STREAM.format(between=between), tmp_path)
    assert ran.races == []
    assert ran.statistics["undeclared_launches"] == 0


# The side stream reads x, whose memory goes back to the main stream and is given to y.
REUSE = """
x = torch.ones(1 << 20, device="cuda")
side.wait_stream(main)
with torch.cuda.stream(side):
    z = x.exp()
    {record}
place = x.data_ptr()
del x
{wait}
y = torch.zeros(1 << 20, device="cuda")
print(y.data_ptr() == place)
"""


def test_a_missing_record_stream(tmp_path):
    ran = Ran(REUSE.format(record="pass", wait=""), tmp_path)
    assert ran.output == "True\n"
    assert len(ran.races) == 1
    first, first_line, second, second_line = ran.races[0]
    assert (first, first_line, second_line) == ("aten::exp", 4, 9)
    assert second in ("aten::zero_", "aten::zeros", "aten::fill_")


def test_record_stream_or_a_wait_before_the_reuse(tmp_path):
    ran = Ran(REUSE.format(record="x.record_stream(side)", wait=""), tmp_path)
    assert ran.races == []
    for path in tmp_path.glob("*.json"):
        path.unlink()
    ran = Ran(REUSE.format(record="pass", wait="main.wait_stream(side)"), tmp_path)
    assert ran.output == "True\n"
    assert ran.races == []


# Blocks that were recorded make the allocator ask about the side stream at every request. That its answer was yes says
# nothing about the rest of the program.
def test_the_allocators_questions_hide_nothing(tmp_path):
    ran = Ran("""
        x = torch.ones(1 << 20, device="cuda")
        side.wait_stream(main)
        with torch.cuda.stream(side):
            z = x.exp()
            x.record_stream(side)
        del x
        w = torch.ones(1 << 20, device="cuda")
        v = torch.ones(1 << 20, device="cuda")
        u = z.sin()
    """, tmp_path)
    assert ran.races == [("aten::exp", 4, "aten::sin", 9)]


def test_copies_from_pinned_memory(tmp_path):
    code = """
        host = torch.ones(1 << 20).pin_memory()
        with torch.cuda.stream(side):
            x = host.to("cuda", non_blocking=True)
        {wait}
        y = x.sin()
    """
    ran = Ran(code.format(wait="pass"), tmp_path)
    assert ran.races == [("aten::copy_", 3, "aten::sin", 5)]
    (tmp_path / f"{ran.statistics['pid']}.json").unlink()
    assert Ran(code.format(wait="main.wait_stream(side)"), tmp_path).races == []


def test_views_and_disjoint_parts_do_not_race(tmp_path):
    ran = Ran("""
        x = torch.zeros(64, 64, device="cuda")
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            a = x[:, :32].add_(1)
            b = x.view(32, 128).t().expand(128, 32).detach()
            c = torch.empty_like(x)
        x[:, 32:].mul_(2)
        torch.cuda.synchronize()
        x[:, 32:].mul_(2)
        with torch.cuda.stream(side):
            x[:, 31:33].add_(1)
    """, tmp_path)
    assert ran.races == [("aten::mul_", 9, "aten::add_", 11)]


def test_the_backward_pass_names_the_line_of_the_forward_one(tmp_path):
    ran = Ran("""
        w = torch.ones(1000, device="cuda", requires_grad=True)
        y = w.sin()
        loss = y.exp().sum()
        with torch.cuda.stream(side):
            loss.grad = None
            h = y.register_hook(lambda g: None)
        loss.backward()
        with torch.cuda.stream(side):
            v = w.grad * 2
    """, tmp_path)
    assert ran.statistics["undeclared_launches"] == 0
    assert len(ran.races) == 1
    (race,) = ran.statistics["races"]
    assert race["first"]["frame"].startswith("backward of ") and race["first"]["frame"].endswith(f":{LINES + 2}")
    assert race["second"]["name"] == "aten::mul" and race["second"]["frame"].endswith(f":{LINES + 9}")


TRAINING = """
weights = [torch.randn(256, device="cuda", requires_grad=True) for _ in range(4)]
optimizer = torch.optim.{optimizer}
host = torch.randn(64, 256).pin_memory()
for step in range(3):
    x = host.to("cuda", non_blocking=True)
    for w in weights:
        x = torch.nn.functional.gelu(torch.nn.functional.layer_norm(x * w, (256,)))
        x = torch.nn.functional.dropout(x, 0.1)
    loss = (x - x.mean(0, keepdim=True)).square().mean() + torch.cat([w * w for w in weights]).sum()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()
    loss.item()
"""


@pytest.mark.parametrize(
    "optimizer",
    ["SGD(weights, 0.1, momentum=0.9)", "AdamW(weights, 1e-3)", "Adam(weights, 1e-3, fused=True)",
     "Adam(weights, 1e-3, foreach=False)"],
)
def test_a_training_step_has_no_races(tmp_path, optimizer):
    ran = Ran(TRAINING.format(optimizer=optimizer), tmp_path)
    assert ran.races == []
    assert ran.statistics["undeclared_launches"] == 0
    assert ran.statistics["declared_accesses"] > 100


def test_convolutions_and_products_of_matrices_have_no_races(tmp_path):
    ran = Ran("""
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 4)
        ).cuda()
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        for step in range(2):
            x = torch.randn(4, 3, 8, 8).pin_memory().cuda(non_blocking=True)
            y = torch.zeros(4, dtype=torch.long).cuda()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    """, tmp_path)
    assert ran.races == []
    assert ran.statistics["undeclared_launches"] == 0
    assert ran.statistics["not_modelled"] == {}


def test_a_prefetching_loader_with_and_without_its_wait(tmp_path):
    code = """
        batches = [torch.randn(1000).pin_memory() for _ in range(6)]
        def load(batch):
            with torch.cuda.stream(side):
                return batch.to("cuda", non_blocking=True)
        coming = load(batches[0])
        for i in range(6):
            {wait}
            batch = coming
            {record}
            if i + 1 < 6:
                coming = load(batches[i + 1])
            loss = sin(batch, 3)
            del batch
    """
    good = code.format(wait="main.wait_stream(side)", record="batch.record_stream(main)")
    assert Ran(good, tmp_path).races == []
    for path in tmp_path.glob("*.json"):
        path.unlink()
    no_wait = Ran(code.format(wait="pass", record="batch.record_stream(main)"), tmp_path)
    line_of_sin = HEAD.splitlines().index("        x = x.sin()") + 1 - LINES
    assert ("aten::copy_", 4, "aten::sin", line_of_sin) in no_wait.races
    for path in tmp_path.glob("*.json"):
        path.unlink()
    # The loader's memory comes from the side stream and goes back to it while the main stream still reads.
    assert len(Ran(code.format(wait="main.wait_stream(side)", record="pass"), tmp_path).races) >= 1


def test_the_observer_without_a_phantom_or_a_compiler(tmp_path):
    code = "from ebbtide import phantom_observer as o\ntry: o.start()\nexcept o.ObserverError as e: print(e)"
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("CXX", "CUDA_HOME")}, "PATH": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "python"),
    }
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert "needs a C++ compiler" in result.stdout and result.stdout.count("\n") == 1
