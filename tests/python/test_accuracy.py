"""bench/estimate/accuracy.py by `ebbtide estimate`: files of a few rows, what it prints of them, and what it refuses."""

import csv
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("EBBTIDE_PROGRAM") or ROOT / "build" / "ebbtide")
MIB = 2**20
has_phantom = pytest.mark.skipif(not (PROGRAM.parent / "phantom" / "cu13").is_dir(), reason="the build has no phantom GPU")

MLP = {"Filename": "input:784_output:10_depth:2_arch:uniform_batch:64.out", "Batch Size": "64", "Max GPU Memory (MiB)": "1500",
       "Activations-Params": "[('linear', 512, 401920), ('ReLU', 512, 0), ('linear', 10, 5130)]"}
XMEM = {"path": "a/1", "gpu": "NVIDIA GeForce RTX 3060", "model": "MobeNetV3Small", "optimizer": "SGD", "batch_size": "8",
        "ground_bytes": str(200 * MIB), "xmem_est_bytes": str(220 * MIB), "real_oom": "false", "zero_grad_mode_in_file": "null"}
TIMM = {"timm_model": "lcnet_035", "batch_size": "4", "measured_max_nvidia_smi_MiB": "1900", "faketensor_fwdbwd_peak_MiB": "100",
        "suspect_oom_or_censored": "0"}


def run(tmp_path, dataset, rows, *words):
    path = tmp_path / "rows.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    command = [sys.executable, ROOT / "bench" / "estimate" / "accuracy.py", "--dataset", dataset, "--rows", path, "--python", sys.executable, *words]
    environment = dict(os.environ, EBBTIDE_CACHE=str(tmp_path / "cache"), OMP_NUM_THREADS="1")
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def answer(done, code=0):
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def estimate(*words):
    run = subprocess.run([PROGRAM, "estimate", *words, "--json"], capture_output=True, text=True)
    return json.loads(run.stdout)


def test_a_perceptron_is_its_reserved_memory_and_the_constant(tmp_path):
    died = MLP | {"Filename": "input:784_output:10_depth:1_batch:64.out", "Activations-Params": "[('linear', 10, 7850)]"}
    result = answer(run(tmp_path, "mlp", [MLP, died], "--json"))
    alone = estimate("mlp", "--widths", "784,512,10", "--batch-size", "64", "--optimizer", "adam", "--framework", "pytorch-2.6")
    first, second = result["rows"]
    assert first["path"] == MLP["Filename"]
    assert first["predicted_bytes"] == alone["peak_reserved_bytes"] + 1429 * MIB
    assert first["safe_bytes"] == first["predicted_bytes"] + alone["safe_bytes"] - alone["total_bytes"] - alone["safe_context_bytes"]
    assert second["predicted_bytes"] < first["predicted_bytes"]
    summary = result["summary"]
    errors = sorted(abs(row["predicted_bytes"] / (1500 * MIB) - 1) for row in result["rows"])
    assert summary["n"] == 2 and summary["not_built"] == 0
    assert summary["median_error"] == pytest.approx(sum(errors) / 2)
    assert summary["p90_error"] == pytest.approx(errors[1])
    assert summary["too_low_share"] == 1  # 2 MiB and 20 MiB segments and 1429 MiB are less than 1500 MiB


@has_phantom
def test_other_layers_are_captured(tmp_path):
    tanh = MLP | {"Activations-Params": MLP["Activations-Params"].replace("ReLU", "Tanh")}
    relu, = answer(run(tmp_path, "mlp", [MLP], "--json"))["rows"]
    same, = answer(run(tmp_path, "mlp", [tanh], "--json"))["rows"]
    assert same["predicted_bytes"] == relu["predicted_bytes"]  # both keep their result and nothing else


def test_sizes_that_count_samples_double():
    """A layer of 3 by 4 numbers on 163 rows. Its weight is not a multiple of 163, its result is, and so is an argument that names its rows."""
    sys.path.insert(0, str(ROOT / "bench" / "estimate"))
    from _doubled import NotTelling, doubled

    graph = {"storages": [{"kind": "parameter", "bytes": 48}, {"kind": "input", "bytes": 163 * 12}, {"kind": "activation", "bytes": 163 * 16}],
             "tensors": [{"storage": 0, "shape": [4, 3]}, {"storage": 1, "shape": [163, 3]}, {"storage": 2, "shape": [163, 4], "stride": [1, 163]}],
             "ops": [{"inputs": [0, 1], "outputs": [2], "flops": 2 * 163 * 12, "arguments": {"size": [163, 4], "dim": 1, "self": {"tensor": 0}}}]}
    twice = doubled(json.loads(json.dumps(graph)), 163)
    assert [s["bytes"] for s in twice["storages"]] == [48, 326 * 12, 326 * 16]
    assert [t["shape"] for t in twice["tensors"]] == [[4, 3], [326, 3], [326, 4]] and twice["tensors"][2]["stride"] == [1, 326]
    assert twice["ops"][0]["flops"] == 2 * 326 * 12 and twice["ops"][0]["arguments"] == {"size": [326, 4], "dim": 1, "self": {"tensor": 0}}
    graph["tensors"][0]["shape"] = [163, 3]
    with pytest.raises(NotTelling, match="a weight of the model has the shape"):
        doubled(graph, 163)


@has_phantom
def test_layers_by_the_names_of_files_are_built(tmp_path):
    layers = "[('linear', 512, 401920), ('batch_normalization', 512, 1024), ('ReLU', 512, 0), ('dropout', 512, 0), ('linear', 10, 5130), ('Softmax', 10, 0)]"
    row, = answer(run(tmp_path, "mlp", [MLP | {"Activations-Params": layers}], "--json"))["rows"]
    assert row["predicted_bytes"] >= 1429 * MIB


@has_phantom
def test_image_and_language_models_and_one_that_nobody_knows(tmp_path):
    rows = [XMEM, XMEM | {"path": "a/2", "model": "t5-small", "optimizer": "AdamW", "batch_size": "1"},
            XMEM | {"path": "a/3", "model": "NoSuchModel"}, XMEM | {"path": "a/4", "real_oom": "true"},
            XMEM | {"path": "a/5", "gpu": "Voodoo 2"}]
    done = run(tmp_path, "xmem", rows, "--json", "--jobs", "1")
    result = answer(done, code=1)
    predicted = {row["path"]: row["predicted_bytes"] for row in result["rows"]}
    assert predicted["a/1"] > 20 * MIB and predicted["a/2"] > 16 * 60_506_624  # weight, gradient and two states of each
    assert predicted["a/3"] is None and predicted["a/5"] is None and "a/4" not in predicted
    assert result["summary"]["n"] == 2 and result["summary"]["not_built"] == 2
    assert "a/3: not built: " in done.stderr and "a/5: not built: no profile is for the GPU Voodoo 2" in done.stderr


@has_phantom
def test_timm_rows_and_a_second_run_from_the_cache(tmp_path):
    rows = [TIMM, TIMM | {"batch_size": "8", "suspect_oom_or_censored": "1"}]
    first = run(tmp_path, "timm", rows, "--json")
    row, = answer(first)["rows"]
    assert row["path"] == "lcnet_035/4" and 1719 * MIB < row["predicted_bytes"] < 2000 * MIB
    files = list((tmp_path / "cache" / "graphs").iterdir())
    assert len(files) == 1
    assert run(tmp_path, "timm", rows, "--json").stdout == first.stdout
    table = run(tmp_path, "timm", rows).stdout
    assert "lcnet_035" in table and "faketensor" in table and "safe figure" in table


@has_phantom
def test_one_capture_tells_all_batches(tmp_path):
    rows = [TIMM | {"batch_size": batch} for batch in ("4", "6", "9")]
    _, between, _ = answer(run(tmp_path, "timm", rows, "--json"))["rows"]
    assert len(list((tmp_path / "cache" / "graphs").iterdir())) == 2  # the capture, and what it tells of twice its batch
    assert answer(run(tmp_path, "timm", rows[1:2], "--json"))["rows"] == [between]  # from a capture of its own
    assert len(list((tmp_path / "cache" / "graphs").iterdir())) == 3


@pytest.mark.parametrize("dataset, row, words, parts", [
    ("xmem", XMEM | {"model": ""}, [], ["line 2: expected a value in column model"]),
    ("xmem", XMEM | {"batch_size": "0"}, [], ["line 2: expected a positive number in column batch_size, found 0"]),
    ("xmem", XMEM | {"ground_bytes": "much"}, [], ["line 2: expected a positive number in column ground_bytes, found much"]),
    ("xmem", TIMM, [], ["line 2: expected a value in column path"]),
    ("xmem", XMEM | {"real_oom": "true"}, [], ["no row of a job that fitted"]),
    ("mlp", MLP | {"Activations-Params": "[('linear'"}, [], ["line 2: expected [('linear', width, parameters), ...]"]),
    ("mlp", MLP | {"Filename": "x.out"}, [], ["line 2: expected input:N in column Filename"]),
    ("mlp", MLP, ["--via", "dryrun"], ["--via dryrun: expected --dataset xmem or fms, found mlp"]),
])
def test_bad_rows_are_one_line_and_exit_2(tmp_path, dataset, row, words, parts):
    done = run(tmp_path, dataset, [row], *words)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("accuracy: ")
    for part in parts:
        assert part in done.stderr
