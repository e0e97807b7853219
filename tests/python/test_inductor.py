"""Inductor's kernels within a budget: the same bits at every budget, and those of Inductor without one."""

import concurrent.futures
import copy
import json
import shutil
import warnings

import pytest

torch = pytest.importorskip("torch")
if shutil.which("g++") is None and shutil.which("clang++") is None:
    pytest.skip("Inductor compiles with a C++ compiler, and there is none", allow_module_level=True)

from support.cuda_steps import run as run_on_phantom  # noqa: E402
from support.on_phantom import LIBRARIES, needs_phantom  # noqa: E402
from support.replay import same_bits  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import ebbtide  # noqa: E402
from ebbtide import files, native  # noqa: E402
from ebbtide.compile.job import Job  # noqa: E402
from ebbtide.inductor import fuse as fusing  # noqa: E402
from ebbtide.inductor.cpp import Coming, not_waiting  # noqa: E402
from ebbtide.inductor.faster import faster  # noqa: E402
from ebbtide.inductor.program import Memory, Value, read  # noqa: E402
from ebbtide.inductor.replay import NotFused  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_dynamo(one_thread, own_cache):
    torch._dynamo.reset()


class Net(nn.Module):
    """A convolution, statistics that are written, dropout, a reduction, a product."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(F.dropout(F.gelu(self.norm(self.conv(x))), 0.2, self.training).mean((2, 3)))


def made(optimizer=torch.optim.SGD):
    torch.manual_seed(0)
    model = Net()
    return model, optimizer(model.parameters(), lr=0.1)


BATCH = torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 2, 3])


def steps(model, step, count=3, batch=BATCH):
    torch.manual_seed(7)
    losses = [step(*batch).detach().clone() for _ in range(count)]
    return [*losses, *(t.detach().clone() for t in model.state_dict().values())]


def of_step(budget, optimizer=torch.optim.SGD):
    model, optimizer = made(optimizer)
    step = ebbtide.step(model, F.cross_entropy, optimizer, BATCH, budget=budget, kernels="inductor")
    out = steps(model, step), step.report().to_dict(), step._current.graph
    step.close()
    return out


def of_loop(batches=(BATCH,), **how):
    model, optimizer = made()
    called = torch.compile(model, **how)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(called(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return [t for batch in batches for t in steps(model, step, batch=batch)]


def smallest(run):
    """The smallest budget that works."""
    with pytest.raises(ebbtide.BudgetError) as refused:
        run("1KiB")
    return refused.value.minimum_budget_bytes


def test_a_step_has_the_same_bits_at_every_budget_and_fewer_ops():
    plain, _, graph = of_step(None)
    assert any(op["schema"] == "ebbtide::fused.default" for op in graph["ops"])
    assert {op["phase"] for op in graph["ops"] if op["schema"].startswith("ebbtide::")} == {"forward", "backward", "update"}
    eager = ebbtide.capture(made()[0], F.cross_entropy, None, BATCH).graph
    assert len(graph["ops"]) < len(eager["ops"])
    within, report, _ = of_step(smallest(of_step))
    assert report["peak_bytes"] <= report["budget_bytes"] < report["plain_peak_bytes"]
    assert all(map(same_bits, within, plain))


def test_torch_compile_has_inductor_s_bits_at_every_budget():
    def ours(budget):
        torch._dynamo.reset()
        return of_loop(backend="ebbtide", options={"budget": budget, "kernels": "inductor"})

    whole = of_loop()
    assert all(map(same_bits, ours(None), whole))
    assert all(map(same_bits, ours(smallest(ours)), whole))


class Broken(Net):
    """Two graphs."""

    def forward(self, x):
        x = F.gelu(self.norm(self.conv(x)))
        torch._dynamo.graph_break()
        return self.head(F.dropout(x, 0.2, self.training).mean((2, 3)))


@pytest.mark.parametrize("kind", [Net, Broken])
def test_other_shapes_and_graph_breaks_have_inductor_s_bits(monkeypatch, kind):
    monkeypatch.setitem(globals(), "Net", kind)
    batches = [*(tuple(t[:count] for t in BATCH) for count in (4, 3, 4)), (BATCH[0][:3, :, :7, :7].contiguous(), BATCH[1][:3])]  # no multiple of any vector

    def trained(**how):
        torch._dynamo.reset()
        return of_loop(batches, dynamic=False, **how)

    options = {"budget": "100%", "kernels": "inductor"}
    assert all(map(same_bits, trained(backend="ebbtide", options=options), trained()))


def test_the_second_start_compiles_nothing(monkeypatch):
    plain, _, _ = of_step(None)
    monkeypatch.setattr(fusing, "_fuse", lambda *_: pytest.fail("what was compiled was kept"))
    again, _, _ = of_step(None)
    assert all(map(same_bits, again, plain))


def test_no_program_is_left_waiting_for_its_compiler():
    from torch._inductor.codecache import PyCodeCache

    of_step(None)
    kept = [value for module in PyCodeCache.modules_no_attr.values() for value in vars(module).values()]
    assert any(callable(value) for value in kept) and not any(isinstance(value, Coming) for value in kept)


def test_other_threads_wait_for_their_compilers_meanwhile():
    def compiled():
        return torch.compile(lambda x: torch.sin(x) * 3.25 + x)(torch.ones(5))

    with not_waiting(), concurrent.futures.ThreadPoolExecutor(1) as thread:
        assert torch.allclose(thread.submit(compiled).result(), torch.sin(torch.ones(5)) * 3.25 + 1)


def test_a_kernel_that_is_still_being_compiled_is_waited_for_where_it_is_called():
    with not_waiting():
        assert torch.allclose(torch.compile(lambda x: torch.cos(x) * 4.75 + x)(torch.ones(5)), torch.cos(torch.ones(5)) * 4.75 + 1)


class Masked(nn.Module):
    """Dropout of 111 numbers, no multiple of any vector, whose mask is kept and read as it lies."""

    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(37, 37), nn.Linear(37, 4)

    def forward(self, x):
        return self.head(F.dropout(F.gelu(self.first(x)), 0.2, self.training))


def test_random_numbers_and_bools_are_taken_several_at_once_with_inductor_s_bits(monkeypatch):
    from torch._inductor.cpu_vec_isa import pick_vec_isa

    monkeypatch.setitem(globals(), "Net", Masked)
    batches = [(BATCH[0].flatten()[:111].reshape(3, 37), BATCH[1][:3])]
    whole = of_loop(batches)
    torch._dynamo.reset()
    kept = files.cache_folder() / "fused"
    before = set(kept.glob("*.json"))
    assert all(map(same_bits, of_loop(batches, backend="ebbtide", options={"budget": "100%", "kernels": "inductor"}), whole))
    text = "".join(path.read_text() for path in set(kept.glob("*.json")) - before)
    assert all((function in text) == bool(pick_vec_isa()) for function in ("ebbtide_rand<", "ebbtide_load<float,1>", "ebbtide_store(tmp"))
    assert "offset_idx < " not in text


def test_a_kernel_without_them_stays_as_it_is():
    source = """#include <x.h>
extern "C" void kernel(const float* in_ptr0, float* out_ptr0)
{
    tmp0.store(out_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));
}
"""
    assert faster(source) == source
    of_bools = source.replace("float* out", "bool* out")
    assert "    ebbtide_store(tmp0, out_ptr0 + static_cast<int64_t>(x0), static_cast<int64_t>(16));" in faster(of_bools)


def test_an_update_that_inductor_is_not_given_keeps_eager_s_kernels():
    with pytest.warns(UserWarning, match="138 ops of the update run with eager's kernels: aten::full.default takes a number that changes"):
        _, _, graph = of_step(None, torch.optim.Adafactor)
    assert not any(op["schema"].startswith("ebbtide::") for op in graph["ops"] if op["phase"] == "update" and "clamp" in op["kind"])
    assert any(op["schema"].startswith("ebbtide::") for op in graph["ops"] if op["phase"] == "backward")


def test_what_inductor_does_not_compile_runs_with_eager_s_kernels(monkeypatch):
    def no_compiler(*_, **__):
        raise RuntimeError("No working C++ compiler found")

    model, optimizer = made()
    plain = copy.deepcopy(model)
    batch = BATCH[0][:3], BATCH[1][:3]  # one that nothing is kept of
    with monkeypatch.context() as patched:
        patched.setattr("torch._inductor.compile_fx.compile_fx_inner", no_compiler)
        with pytest.warns(UserWarning, match="No working C\\+\\+ compiler found; the step runs with eager's kernels"):
            step = ebbtide.step(model, F.cross_entropy, optimizer, batch, kernels="inductor")
    ours = steps(model, step, 1, batch)
    other = torch.optim.SGD(plain.parameters(), lr=0.1)

    def eager(x, y):
        other.zero_grad()
        loss = F.cross_entropy(plain(x), y)
        loss.backward()
        other.step()
        return loss

    assert all(map(same_bits, ours, steps(plain, eager, 1, batch)))


def test_other_kernels_are_refused():
    model, optimizer = made()
    with pytest.raises(ValueError, match="kernels 'triton': expected one of eager, inductor"):
        ebbtide.step(model, F.cross_entropy, optimizer, BATCH, kernels="triton")


@pytest.mark.parametrize("version", ["2.10.0+cu128", "2.16.0"])
def test_versions_whose_programs_are_not_known_are_refused(monkeypatch, version):
    monkeypatch.setattr(torch, "__version__", version)
    for refused in (lambda: ebbtide.step(made()[0], F.cross_entropy, made()[1], BATCH, kernels="inductor"), lambda: Job({"kernels": "inductor"})):
        with pytest.raises(ValueError, match="expected torch 2.11 to 2.15, whose programs are known; this is torch 2.1"):
            refused()


class Told:
    """What a program's lines say."""

    def __init__(self):
        self.lines = []

    def kernel(self, name, args):
        self.lines.append((name, args))

    def call(self, function, args, kwargs):
        self.lines.append((str(function), args, kwargs))


def test_a_program_is_read_line_by_line():
    told, x = Told(), Value(Memory(48), torch.float32, (3, 4), (4, 1))
    source = """
def call(args):
    arg0_1, = args
    args.clear()
    assert_size_stride(arg0_1, (3, 4), (4, 1))
    buf0 = empty_strided_cpu((4, 3), (3, 1), torch.float32)
    cpp_fused_relu_0(arg0_1, buf0)
    buf1 = buf0; del buf0  # reuse
    extern_kernels.mm(buf1, reinterpret_tensor(arg0_1, (3, 2), (4, 1), 1), out=buf1)
    return (buf1, )
"""
    [result] = read(source, [x], told)
    (name, (given, buffer)), (function, (_, view), kwargs) = told.lines
    assert (name, given, buffer.memory.bytes) == ("cpp_fused_relu_0", x, 48)
    assert function == "aten.mm" and (view.shape, view.stride, view.offset) == ((3, 2), (4, 1), 1) and view.memory is x.memory
    assert kwargs["out"] is buffer is result


@pytest.mark.parametrize("line", ["if x: pass", "buf0 = unknown.call(x)", "buf0 = torch.ops.aten.there_is_none(x)", "for i in x: pass", "buf0 = lambda: 1"])
def test_a_line_of_another_kind_is_refused(line):
    with pytest.raises(NotFused, match="Inductor's program"):
        read(f"def call(args):\n    x, = args\n    {line}\n    return (x, )\n", [Value(Memory(4), torch.float32, (1,), (1,))], Told())


def test_no_warning_where_all_is_compiled():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        of_step(None)


def test_a_captured_file_of_fused_kernels_is_planned(tmp_path, capsys):
    from ebbtide.commands.capture import main

    path = tmp_path / "step.json"
    assert main(["mlp", "--batch-size", "64", "--widths", "32,64,8", "--kernels", "inductor", "--json", "-o", str(path)]) == 0
    fused = json.loads(capsys.readouterr().out)["fused"]
    assert fused["ops"] < fused["captured_ops"] and fused["made_bytes"] < fused["captured_made_bytes"] and fused["kernels"] > 3
    planned = native.plan(native.Graph(path.read_text(), "step"), budget="100%")
    assert planned.to_dict()["feasible"] and planned.to_dict()["peak_bytes"] <= planned.to_dict()["plain_peak_bytes"]


@needs_phantom
@pytest.mark.parametrize("graphs", [False, True])
def test_on_a_gpu_a_step_of_triton_s_kernels_lies_in_its_pool_without_a_race(tmp_path, graphs):
    said, statistics = run_on_phantom(
        """
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 8)).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        batch = torch.randn(16384, 32).cuda(), torch.randint(0, 8, (16384,)).cuda()
        def step(budget):
            return ebbtide.step(model, F.cross_entropy, optimizer, batch, device="cuda", budget=budget, kernels="inductor", cuda_graphs=GRAPHS)
        try:
            step("1MiB")
        except ebbtide.BudgetError as error:
            step = step(error.minimum_budget_bytes)
        step(*batch)
        undeclared = phantom.ebbtide_phantom_undeclared_launches()
        for _ in range(3):
            step(*batch)
        print(json.dumps({"report": step.report().to_dict(), "undeclared": phantom.ebbtide_phantom_undeclared_launches() - undeclared,
                          "ops": [op["schema"] for op in step._current.graph["ops"]]}))
        """.replace("GRAPHS", str(graphs)), tmp_path, TRITON_LIBCUDA_PATH=str(LIBRARIES / "common"))
    report = said["report"]
    assert statistics["race_count"] == 0 and statistics["declared_accesses"] > 100 and said["undeclared"] == 0
    assert report["peak_bytes"] <= report["budget_bytes"] < report["plain_peak_bytes"]
    assert report["beyond_plan_bytes"] == 0 and report["relocated"] == 0
    assert said["ops"].count("ebbtide::triton.default") > 5 and "aten::gelu.default" not in said["ops"]
    assert (report["graph_ops"] > report["graphs"] > 0) == graphs
