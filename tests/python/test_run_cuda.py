"""ebbtide.step on device cuda, on the phantom GPU: one program per test, the race checker beside. Kernels are skipped there, so numbers
are not compared; what is: that nothing is touched before its turn, that all of it lies in the pool, and what failures leave behind."""

import os
import re
import subprocess
import sys

import pytest
from support.cuda_steps import run
from support.on_phantom import needs_phantom

pytest.importorskip("torch")

pytestmark = needs_phantom


def test_a_step_lies_in_its_pool_without_a_race_beside_its_copies(tmp_path):
    said, statistics = run(
        """
        cnn = Cnn()
        step = cnn.step(budget="60%")
        step(*cnn.batch)
        undeclared, reserved = phantom.ebbtide_phantom_undeclared_launches(), torch.cuda.memory_reserved()
        torch.cuda.reset_peak_memory_stats()
        loss = step(*cnn.batch)
        trace = json.loads(step._current.engine.trace())["traceEvents"]
        print(json.dumps({
            "report": step.report().to_dict(), "undeclared": phantom.ebbtide_phantom_undeclared_launches() - undeclared,
            "reserved": [reserved, torch.cuda.max_memory_reserved()], "waits": step._pool.waits, "loss": str(loss.device),
            "spans": [(e["tid"], e["ts"], e["ts"] + e["dur"]) for e in trace if e["ph"] == "X"]}))
        """, tmp_path)
    report = said["report"]
    assert statistics["race_count"] == 0 and statistics["declared_accesses"] > 1000
    assert said["undeclared"] == 0 and said["loss"] == "cuda:0"
    assert report["peak_bytes"] <= report["budget_bytes"] <= 0.6 * report["plain_peak_bytes"] + 1
    assert report["beyond_plan_bytes"] == 0 and report["relocated"] == 0
    # A step takes nothing of torch's own memory but what its libraries keep.
    assert said["reserved"][0] == said["reserved"][1] <= 32 << 20
    # Compute is track 0, copies are 1 and 2: most of their time runs beside ops.
    compute = [(begin, end) for track, begin, end in said["spans"] if track == 0]
    copies = [(begin, end) for track, begin, end in said["spans"] if track != 0]
    both = sum(max(0, min(e, end) - max(b, begin)) for b, e in copies for begin, end in compute)
    assert report["copied_out_bytes"] > 1 << 20 and said["waits"] > 10
    assert both > 0.5 * sum(end - begin for begin, end in copies)


def test_no_wait_can_be_left_out(tmp_path):
    said, _ = run(
        """
        cnn = Cnn()
        step = cnn.step(budget="100%", policy="vdnn-all")
        step(*cnn.batch)
        before = step._pool.waits
        step(*cnn.batch)
        waits, clean, reported = step._pool.waits - before, races(), []
        for n in range(1, waits + 1):
            before = races()
            step._pool.skip_wait(n)
            step(*cnn.batch)
            reported.append(races() > before)
        print(json.dumps({"waits": waits, "clean": clean, "reported": sum(reported)}))
        """, tmp_path)
    assert said["clean"] == 0
    assert said["reported"] == said["waits"] > 10


def test_pinned_memory_may_be_short(tmp_path):
    said, statistics = run(
        """
        out = []
        for share in (1, 0, 0.1, 0.5):
            cnn = Cnn()
            step = cnn.step(budget="60%", pinned_limit=int(share * out[0]["pinned"]) if out else None)
            step(*cnn.batch)
            step(*cnn.batch)
            report = step.report().to_dict()
            out.append({"pinned": step._pool.pinned, "peak": report["peak_bytes"], "budget": report["budget_bytes"]})
            step.close()
        print(json.dumps(out))
        """, tmp_path)
    assert said[0]["pinned"] > 1 << 20 and said[1]["pinned"] == 0
    assert 0 < said[2]["pinned"] <= 0.1 * said[0]["pinned"] < said[3]["pinned"] <= 0.5 * said[0]["pinned"]
    assert all(each["peak"] <= each["budget"] for each in said)
    assert statistics["race_count"] == 0


def test_what_fails_leaves_everything_as_it_was(tmp_path):
    said, statistics = run(
        """
        cnn = Cnn()
        step = cnn.step(budget="60%")
        step(*cnn.batch)

        def everything():
            tensors = [*cnn.model.state_dict().values(), *(t for s in cnn.optimizer.state.values() for t in s.values())]
            return [t.cpu().clone() for t in tensors] + [torch.cuda.get_rng_state(), torch.get_rng_state()]

        def same(a, b):
            return len(a) == len(b) and all(torch.equal(x, y) for x, y in zip(a, b))

        engine, before, counts = step._current.engine, everything(), {"requests": 0, "copies": 0, "changed": 0, "good": 0}
        allocated = torch.cuda.memory_allocated()
        for n in range(1, 10_000):
            engine.fail_at(n)
            try:
                step(*cnn.batch)
                break
            except torch.OutOfMemoryError:
                counts["requests"] += 1
                counts["changed"] += not same(everything(), before)
        for n in range(1, 100):
            before = everything()
            step._pool.fail_at(n)
            try:
                step(*cnn.batch)
                counts["good"] += 1
            except RuntimeError:
                counts["copies"] += 1
                counts["changed"] += not same(everything(), before)
        step._pool.fail_at(0)
        step(*cnn.batch)
        counts["leaked"] = torch.cuda.memory_allocated() - allocated
        counts["races"] = races()
        print(json.dumps(counts))
        """, tmp_path, EBBTIDE_PHANTOM_BACKED="256MiB", EBBTIDE_PHANTOM_KERNEL_US="100")
    assert said["requests"] > 30 and said["copies"] > 5 and said["good"] > 10
    assert said["changed"] == said["leaked"] == said["races"] == 0


def test_random_numbers_are_drawn_as_by_plain_torch(tmp_path):
    """Also where dropout runs again."""
    said, _ = run(
        """
        cnn = Cnn()
        torch.cuda.manual_seed(5)
        for _ in range(2):
            F.cross_entropy(cnn.model(cnn.batch[0]), cnn.batch[1]).backward()
        plain = torch.cuda.get_rng_state()
        steps = []
        for options in ({"budget": "60%"}, {"budget": "100%", "policy": "checkpoint-sqrt"}):
            step = cnn.step(**options)
            torch.cuda.manual_seed(5)
            for _ in range(2):
                step(*cnn.batch)
            steps.append((torch.equal(torch.cuda.get_rng_state(), plain), step.report().to_dict()["recompute_ns"]))
            step.close()
        print(json.dumps(steps))
        """, tmp_path)
    assert [same for same, _ in said] == [True, True] and said[1][1] > 0


def test_the_program_trains_on_it(tmp_path):
    said, statistics = run(
        """
        import subprocess
        from ebbtide.__main__ import find_program
        done = subprocess.run([find_program(), "train", "mlp", "--device", "cuda", "--steps", "2", "--json", "-q"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        torch.ones(1, device="cuda").sin()
        print(done.stdout.strip())
        """, tmp_path)
    assert said["feasible"] and said["steps"] == 2 and said["peak_bytes"] <= said["budget_bytes"]


def test_without_a_gpu_it_says_so():
    result = subprocess.run(
        [sys.executable, "-c", "import torch, ebbtide; m = torch.nn.Linear(2, 2); ebbtide.step(m, None, torch.optim.SGD(m.parameters()), torch.ones(1, 2), "
         "budget=None, device='cuda')"], capture_output=True, text=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert result.returncode == 1 and "device 'cuda': PyTorch sees no GPU" in result.stderr


def test_compiled_models_too(tmp_path):
    """Backward runs on a thread of autograd's, and gradients and outputs are the user's memory."""
    said, _ = run(
        """
        from ebbtide.compile.backend import reports
        job = Cnn()
        model = torch.compile(job.model, backend="ebbtide", options={"budget": "60%"})
        for autocast in (False, True):
            for _ in range(3):
                job.optimizer.zero_grad()
                with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
                    loss = F.cross_entropy(model(job.batch[0]), job.batch[1])
                loss.backward()
                job.optimizer.step()
        torch.cuda.synchronize()
        grads = all(p.grad is not None and p.grad.device.type == "cuda" for p in job.model.parameters())
        print(json.dumps({"reports": reports(), "races": races(), "grads": grads, "loss": str(loss.device)}))
        """,
        tmp_path,
    )
    assert said["races"] == 0 and said["grads"] and said["loss"] == "cuda:0"
    for report in said["reports"]:
        assert report["peak_bytes"] <= report["budget_bytes"] <= 0.6 * report["plain_peak_bytes"]
        assert report["copied_out_bytes"] > 0 or report["recompute_ns"] > 0


def test_cuda_graphs_between_copies_keep_the_budget_without_a_race(tmp_path):
    said, statistics = run(
        """
        cnn = Cnn()
        step = cnn.step(budget="60%", cuda_graphs=True)
        taken = []
        for _ in range(4):
            step(*cnn.batch)
            taken.append(step.report().to_dict() | {"shown": repr(step.report())})
        undeclared, before = phantom.ebbtide_phantom_undeclared_launches(), step._pool.waits
        step(*cnn.batch)
        waits, clean, reported = step._pool.waits - before, races(), []
        undeclared = phantom.ebbtide_phantom_undeclared_launches() - undeclared
        for n in range(1, waits + 1):
            before = races()
            step._pool.skip_wait(n)
            step(*cnn.batch)
            reported.append(races() > before)
        graph = step._current.graph
        print(json.dumps({"taken": taken, "undeclared": undeclared, "waits": waits, "clean": clean, "reported": sum(reported), "ops": len(graph["ops"])}))
        """, tmp_path)
    first, *_, last = said["taken"]
    assert re.search(r"CUDA graphs \(ops in them\) +0 \(0\)", first["shown"])  # that there is none is said
    assert first["graphs"] == 0 and last["graphs"] > 3 and last["graph_ops"] > said["ops"] / 2
    assert said["clean"] == 0 and said["undeclared"] == 0
    assert said["reported"] == said["waits"] > 10  # each wait in front of a graph is one that it needs
    assert last["peak_bytes"] <= last["budget_bytes"] and last["beyond_plan_bytes"] == 0 and last["relocated"] == 0
    assert all(last[name] == first[name] for name in ("peak_bytes", "live_peak_bytes", "copied_out_bytes"))


def test_cuda_graphs_are_of_a_gpu():
    import torch

    import ebbtide

    model = torch.nn.Linear(2, 2)
    with pytest.raises(ValueError, match="cuda_graphs=True: expected device='cuda'"):
        ebbtide.step(model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters()), (torch.ones(2, 2), torch.ones(2, 2)), cuda_graphs=True)
