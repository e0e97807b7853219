"""Programs on several phantom GPUs: ranks that torchrun starts, one rank of many, several GPUs in one process, and ranks that
disagree."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
EBBTIDE = pathlib.Path(os.environ.get("EBBTIDE_PROGRAM") or CHECKOUT / "build" / "ebbtide")
PROGRAMS = pathlib.Path(__file__).parent / "programs"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]

pytestmark = pytest.mark.skipif(not (EBBTIDE.parent / "phantom" / "cu13").is_dir(), reason="the build has no phantom GPU")


PARAMETERS = 4 * (512 * 512 + 512)  # of the programs' models


def dryrun(flags, program, code=0):
    command = [EBBTIDE, "dryrun", "--json", *flags, "--", *program]
    run = subprocess.run([str(part) for part in command], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert (run.returncode == 0) == (code == 0), run.stderr
    return json.loads(run.stdout), run.stderr


@pytest.mark.parametrize("mode", ["ddp", "fsdp"])
def test_ranks_take_the_same(mode):
    answer, _ = dryrun(["--gpus", 2], [*TORCHRUN, "--nproc-per-node", 2, PROGRAMS / "ranks.py", mode])
    assert [rank["rank"] for rank in answer["ranks"]] == [0, 1] and answer["world_size"] == 2
    assert [rank["gpu"] for rank in answer["ranks"]] == [0, 1]
    first, second = answer["ranks"]
    for field in ("peak_reserved_bytes", "peak_allocated_bytes", "total_bytes", "nccl_bytes", "steps"):
        assert first[field] == second[field], field
    assert first["steps"] == answer["steps"] == 3
    assert answer["peak_reserved_bytes"] == first["peak_reserved_bytes"]
    assert answer["total_bytes"] == first["total_bytes"]
    assert answer["breakdown"]["NCCL"] == first["nccl_bytes"] == 544 << 20
    assert answer["not_modelled"] == {}
    # Parameters, gradients and two states, whole or by half; DDP has a second copy of the gradients in its buckets.
    least = PARAMETERS * 4 * (5 if mode == "ddp" else 4 / 2)
    assert first["peak_allocated_bytes"] >= least


def test_small_contents_are_exchanged():
    dryrun(["--gpus", 3], [*TORCHRUN, "--nproc-per-node", 3, PROGRAMS / "ranks.py", "values"])


def test_what_one_thread_waits_for_and_another_has_found_has_come():
    dryrun(["--gpus", 2], [*TORCHRUN, "--nproc-per-node", 2, PROGRAMS / "ranks.py", "polled"])


def test_one_rank_of_many():
    answer, _ = dryrun(["--world-size", 64, "--ranks", "0,13"], [sys.executable, PROGRAMS / "ranks.py", "fsdp"])
    assert sorted(rank["rank"] for rank in answer["ranks"]) == [0, 13]
    assert sorted(rank["gpu"] for rank in answer["ranks"]) == [0, 5]  # eight GPUs for each machine
    assert answer["gpus"] == 8 and answer["world_size"] == 64
    assert answer["ranks"][0]["peak_allocated_bytes"] == answer["ranks"][1]["peak_allocated_bytes"]
    two, _ = dryrun(["--world-size", 2], [sys.executable, PROGRAMS / "ranks.py", "fsdp"])
    assert answer["peak_allocated_bytes"] < two["peak_allocated_bytes"]


def test_one_rank_of_a_mesh_takes_what_it_takes_among_all():
    all_ranks, _ = dryrun(["--gpus", 4], [*TORCHRUN, "--nproc-per-node", 4, PROGRAMS / "ranks.py", "mesh"])
    alone, _ = dryrun(["--world-size", 4, "--ranks", "3"], [sys.executable, PROGRAMS / "ranks.py", "mesh"])
    assert len(all_ranks["ranks"]) == 4 and alone["steps"] == 3 and alone["not_modelled"] == {}
    for field in ("peak_reserved_bytes", "peak_allocated_bytes", "nccl_bytes"):
        assert {rank[field] for rank in all_ranks["ranks"]} == {alone["ranks"][0][field]}, field


def test_several_gpus_in_one_process():
    answer, _ = dryrun(["--gpus", 2], [sys.executable, PROGRAMS / "ranks.py", "devices"])
    assert sorted(rank["gpu"] for rank in answer["ranks"]) == [0, 1]
    assert len({rank["pid"] for rank in answer["ranks"]}) == 1
    assert all(rank["peak_allocated_bytes"] >= PARAMETERS * 16 for rank in answer["ranks"])


def test_data_parallel_has_copies_on_every_gpu():
    answer, _ = dryrun(["--gpus", 4], [sys.executable, PROGRAMS / "ranks.py", "replicas"])
    peaks = {rank["gpu"]: rank["peak_allocated_bytes"] for rank in answer["ranks"]}
    assert sorted(peaks) == [0, 1, 2, 3] and peaks[1] == peaks[2] == peaks[3]  # 16 of the batch's 64 rows each
    # Others have a copy of the parameters and gradients of it; the first has the model, its state and gradients of others too.
    assert peaks[1] >= PARAMETERS * 4 and peaks[0] >= PARAMETERS * 16
    assert answer["steps"] == 3 and answer["not_modelled"] == {}


def test_stages_in_one_process():
    answer, _ = dryrun(["--gpus", 4], [sys.executable, PROGRAMS / "ranks.py", "stages"])
    assert sorted(rank["gpu"] for rank in answer["ranks"]) == [0, 1, 2, 3] and answer["steps"] == 3
    assert all(rank["peak_allocated_bytes"] >= PARAMETERS * 16 for rank in answer["ranks"])
    # But for the first, with the batch, and the last. What a stream has recorded comes back when it is seen to be done: a quarter of the batch sooner or later.
    middle = [rank["peak_allocated_bytes"] for rank in answer["ranks"][1:-1]]
    assert max(middle) - min(middle) < 64 * 512 * 4


def of_ranks(answer, count):
    """All ranks are there, made the same steps and take the same."""
    assert sorted(rank["rank"] for rank in answer["ranks"]) == list(range(count))
    assert {rank["steps"] for rank in answer["ranks"]} == {3}
    for field in ("peak_allocated_bytes", "nccl_bytes"):  # what is reserved depends on time where streams are recorded
        assert len({rank[field] for rank in answer["ranks"]}) == 1, field
    assert answer["not_modelled"] == {}
    return answer["ranks"][0]["peak_allocated_bytes"]


def test_spawned_ranks_take_what_torchrun_s_take():
    spawned, _ = dryrun(["--gpus", 2], [sys.executable, PROGRAMS / "ranks.py", "spawn"])
    started, _ = dryrun(["--gpus", 2], [*TORCHRUN, "--nproc-per-node", 2, PROGRAMS / "ranks.py", "ddp"])
    assert of_ranks(spawned, 2) == of_ranks(started, 2)


def test_lightning_starts_its_ranks():
    peaks = {strategy: of_ranks(dryrun(["--gpus", 2], [sys.executable, PROGRAMS / "lightning_ranks.py", strategy])[0], 2)
             for strategy in ("ddp", "ddp_spawn", "fsdp")}
    assert peaks["ddp"] == peaks["ddp_spawn"] >= PARAMETERS * 20 > peaks["fsdp"]  # a second copy of the gradients


def test_accelerate_starts_its_ranks():
    launch = [sys.executable, "-m", "accelerate.commands.accelerate_cli", "launch", "--multi_gpu", "--num_processes", 2, "--num_machines", 1,
              "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", 0]
    answer, _ = dryrun(["--gpus", 2], [*launch, PROGRAMS / "accelerate_ranks.py"])
    of_ranks(answer, 2)


@pytest.mark.parametrize("bug, words", [
    ("size", ["ncclAllReduce of 4 float32", "ncclAllReduce of 5 float32"]),
    ("root", ["ncclBroadcast of 4 float32, root 0", "ncclBroadcast of 4 float32, root 1"]),
    ("missing-then-ends", ["has ended, and rank 0 waits in ncclAllReduce of 4 float32"]),
    ("group", ["wait for each other"]),
])
def test_ranks_that_disagree_are_told(bug, words):
    _, errors = dryrun(["--gpus", 2], [sys.executable, PROGRAMS / "collective_bugs.py", bug], code=1)
    line = next(line for line in errors.splitlines() if line.startswith("phantom: "))
    assert all(word in line for word in words), line
    assert "collective_bugs.py:" in line


def test_flags_that_do_not_fit():
    for flags, program, text in [
        (["--ranks", "0"], ["python"], "--ranks: expected --world-size beside it"),
        (["--world-size", "8", "--ranks", "8"], ["python"], "expected numbers of 0 to 7"),
        (["--world-size", "8"], ["torchrun", "x.py"], "starts ranks by itself"),
        (["--gpus", "65"], ["python"], "expected a number of 1 to 64"),
    ]:
        run = subprocess.run([EBBTIDE, "dryrun", *flags, "--", *program], capture_output=True, text=True)
        assert run.returncode == 2 and text in run.stderr, run.stderr
