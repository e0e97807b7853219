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


def test_jobs_on_a_cluster(tmp_path):
    (tmp_path / "jobs.csv").write_text("arrival,model,batch,work\n0,resnet18,32,100\n1,resnet18,32,100\n")
    words = ["cluster", str(tmp_path / "jobs.csv"), "--nodes", "1x1xt4", "--policy", "ebbtide", "--policy", "fgd"]
    result = native.cluster(str(tmp_path / "jobs.csv"), nodes="1x1xt4", policies=["ebbtide", "fgd"])
    assert result.to_dict() == answer_of(*words)
    assert "gantt" in result.page() and "fgd" in repr(result) and "makespan" in result._repr_html_()
    with pytest.raises(ValueError, match="line 3"):
        (tmp_path / "bad.csv").write_text("arrival,model,batch,work\n0,resnet18,32,100\n1,resnet,32,100\n")
        native.cluster(str(tmp_path / "bad.csv"), nodes="1x1xt4")


LLAMA = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
         "vocab_size": 1000, "max_position_embeddings": 512}


@pytest.mark.parametrize(("options", "words"), [
    ({"dtype": "bf16", "quantize": "nf4", "lora": 8, "lora_dropout": 0.1, "attention": "flash", "checkpoint": "every:2", "clip": True},
     "--dtype bf16 --quantize nf4 --lora 8 --lora-dropout 0.1 --attention flash --checkpoint=every:2 --clip"),
    ({"kernels": "liger", "loss": "fused", "checkpoint": "reentrant", "resize_vocab": 1200, "transformers": "4.48", "autocast": "bf16"},
     "--kernels liger --loss fused --checkpoint=reentrant --resize-vocab 1200 --transformers 4.48 --autocast bf16"),
    ({"gpus": 4, "fsdp": 2, "packing": True}, "--gpus 4 --fsdp --packing"),
    ({"gpus": 4, "fsdp": "1", "accumulate": 2, "reduce_each_batch": True}, "--gpus 4 --fsdp=1 --accumulate 2 --reduce-each-batch"),
    ({"gpus": 2, "zero": 2, "optimizer": "adamw"}, "--gpus 2 --zero 2 --optimizer adamw"),
    ({"gpus": 4, "tp": 2, "ddp": True}, "--gpus 4 --tp 2 --ddp"),
    ({"gpus": 2, "pp": 2, "microbatches": 4, "batch_size": 8}, "--gpus 2 --pp 2 --microbatches 4 --batch-size 8"),
])
def test_options_are_the_command_line_s_flags(options, words, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    options = {"seq_len": 64, "batch_size": 2, **options}
    rest = ["--seq-len", "64"] + ([] if "--batch-size" in words else ["--batch-size", "2"])
    result = native.estimate(str(tmp_path / "config.json"), options=options)
    assert result.to_dict() == answer_of("estimate", str(tmp_path / "config.json"), *rest, *words.split())
    assert "<table" in result._repr_html_()


@pytest.mark.parametrize(("options", "says"), [
    ({"quantize": "nf5"}, "expected nf4, int8, gptq4 or fp8, found nf5; did you mean nf4"),
    ({"fsdp": 3}, "expected 1 or 2, found 3"),
    ({"checkpoint": "every:0"}, "expected every:N"),
    ({"gpus": 0}, "from 1 on"),
    ({"batchsize": 1}, "did you mean batch_size"),
    ({"clip": "yes"}, "clip: found a value of type"),
])
def test_options_that_are_refused(options, says):
    with pytest.raises(ValueError, match=says):
        native.estimate("gpt2", options=options)


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
