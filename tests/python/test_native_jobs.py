"""The jobs as Python calls them in process: the answers of the command line, progress, errors by class, and Ctrl-C."""

import gc
import json
import os
import signal
import threading

import pytest
from support.command_line import run

import ebbtide
from ebbtide import native


def answer_of(*words):
    return json.loads(run(*words, "--json").stdout)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: native.inspect("resnet18", options={"batch_size": 4}), ["inspect", "resnet18", "--batch-size", "4", "--device", "cuda"]),
    (lambda: native.estimate("resnet18", gpu="rtx3060", iterations=2, options={"optimizer": "adam"}),
     ["estimate", "resnet18", "--gpu", "rtx3060", "--iterations", "2", "--optimizer", "adam"]),
    (lambda: native.fit("mlp", gpus=["t4", native.Profile("v100-16gb")]), ["fit", "mlp", "--gpu", "t4", "--gpu", "v100-16gb"]),
    (lambda: native.plan("alexnet", budget="70%", link="8GB/s", compare=True),
     ["plan", "alexnet", "--budget", "70%", "--link", "8GB/s", "--compare"]),
    (lambda: native.plan("mlp", budget="70%", swap=False, pareto=True, bound=False),
     ["plan", "mlp", "--budget", "70%", "--no-swap", "--pareto", "--no-bound"]),
    (lambda: native.share(["mlp", "alexnet"], gpu="t4", capacity="4GiB", weights=[2, 1], options={"batch_size": 8}),
     ["share", "mlp", "alexnet", "--gpu", "t4", "--capacity", "4GiB", "--weights", "2,1", "--batch-size", "8"]),
], ids=["inspect", "estimate", "fit", "plan", "pareto", "share"])
def test_the_answer_is_the_command_line_s(call, words):
    result = call()
    assert result.to_dict() == answer_of(*words)
    assert json.loads(result.to_json()) == result.to_dict()
    assert repr(result) == result.text(100)
    assert result.page().lstrip().lower().startswith("<!doctype html")


def test_a_graph_in_memory_is_planned_and_its_plan_replayed(graph):
    step = native.Graph.read(str(graph))
    planned = native.plan(step, budget="80%")
    assert planned.feasible
    assert planned.plan.graph_hash == step.hash
    replayed = native.simulate(step, planned.plan).to_dict()
    assert replayed["valid"]
    assert (replayed["time_ns"], replayed["peak_bytes"]) == (planned.plan.time_ns, planned.plan.peak_bytes)
    assert json.loads(planned.trace())


def test_no_plan_is_an_answer(graph):
    result = native.plan(native.Graph.read(str(graph)), budget=100)
    assert not result.feasible
    assert result.plan is None
    assert result.to_dict()["minimum_budget_bytes"] > 100


def test_items_and_traces(tmp_path):
    items = tmp_path / "items.csv"
    items.write_text("id,lower,upper,size\n0,0,2,4\n1,1,3,4\n2,2,4,4\n")
    assert native.pack(str(items)).to_dict() == answer_of("pack", str(items))
    trace = tmp_path / "trace.csv"
    trace.write_text("action,addr,size,stream\nalloc,4096,1000,0\nfree_completed,4096,1000,0\n")
    assert native.replay(str(trace), gpu="t4").to_dict() == answer_of("replay", str(trace), "--gpu", "t4")


def test_errors_have_classes(graph):
    step = native.Graph.read(str(graph))
    plan = native.plan(step, budget="80%").plan
    with pytest.raises(ebbtide.PlanError, match="plan"):
        native.simulate("mlp", plan)
    with pytest.raises(ebbtide.CaptureError, match="captured first"):
        native.estimate("train.py:step")
    with pytest.raises(ValueError, match="resnet5.*did you mean"):
        native.estimate("resnet5")
    with pytest.raises(ValueError, match="batch_siz: expected .*did you mean batch_size"):
        native.estimate("resnet50", options={"batch_siz": 4})
    with pytest.raises(ValueError, match="of no use"):
        native.estimate(step, options={"batch_size": 4})
    with pytest.raises(ValueError, match="expected a Graph"):
        native.plan(7)


def test_progress_is_told_and_may_end_the_job():
    phases = []
    native.plan("resnet18", budget="60%", progress=lambda phase, share, note: phases.append((phase, share)))
    assert phases
    assert all(isinstance(phase, str) and 0 <= share <= 1 for phase, share in phases)

    class Enough(Exception):
        pass

    def refuse(phase, share, note):
        raise Enough(phase)

    with pytest.raises(Enough):
        native.plan("resnet50", budget="50%", progress=refuse)


def test_ctrl_c_ends_a_job(interrupts):
    """The job would take minutes. That it ends within 0.2 s is shown by bench/run/interrupt_bench.py: tests do not look at the clock."""
    def interrupt(phase, share, note):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        native.plan("resnet152", budget="35%", evaluations=100_000_000, progress=interrupt)


def test_other_threads_run_meanwhile():
    """The interpreter's lock is released: a thread that counts gets on while a plan is made."""
    counted, done = [], threading.Event()

    def count():
        while not done.is_set():
            counted.append(1)
            done.wait(0.001)

    thread = threading.Thread(target=count)
    seen = []
    thread.start()
    try:
        native.plan("resnet18", budget="50%", progress=lambda *moment: seen.append(len(counted)))
    finally:
        done.set()
        thread.join()
    assert len(seen) > 1 and seen[-1] > seen[0]


def test_results_outlive_what_they_came_from(graph):
    step = native.Graph.read(str(graph))
    result = native.plan(step, budget="80%")
    plan = result.plan
    del step, result
    gc.collect()
    assert plan.budget_bytes >= plan.peak_bytes
