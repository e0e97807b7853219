"""`ebbtide estimate` and `ebbtide fit` as a user runs them."""

import json

import pytest
from support.command_line import assert_refused, result_of, run

PARTS = ["Parameter", "Buffer", "Gradient", "Optstate", "Other", "Activation", "Temp", "workspace", "fragmentation",
         "reservation", "context"]


def test_the_figures_fit_together():
    result = result_of("estimate", "resnet18", "--batch-size", 8, "--optimizer", "adam", "--gpu", "rtx3060")
    assert result["fits"] and result["lacks_bytes"] == 0 and result["largest_batch"] is None
    assert list(result["breakdown"]) == PARTS
    assert sum(result["breakdown"].values()) == result["total_bytes"]
    assert result["total_bytes"] == (
        result["peak_reserved_bytes"] + result["context_bytes"] + result["loaded_code_bytes"])
    assert result["peak_allocated_bytes"] <= result["peak_reserved_bytes"]
    assert result["breakdown"]["Parameter"] == 4 * 11_689_512  # torchvision's resnet18
    assert result["safe_bytes"] >= result["total_bytes"] + max(64 * 2**20, int(0.03 * result["total_bytes"]))
    assert 0 < result["safe_probability"] < 1
    sizes = [tensor["bytes"] for tensor in result["largest_at_peak"]]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) == 10
    assert max(result["reserved_over_time"]) <= result["peak_reserved_bytes"]


def test_a_job_that_does_not_fit_says_what_would():
    words = ("estimate", "resnet18", "--gpu", "rtx4060")
    done = run(*words, "--batch-size", 2000, "--json")
    assert (done.returncode, done.stderr) == (1, "")
    result = json.loads(done.stdout)
    assert not result["fits"]
    assert result["lacks_bytes"] == result["total_bytes"] - result["capacity_bytes"] > 0
    assert len(result["largest_contributors"]) == 3
    largest = result["largest_batch"]
    assert run(*words, "--batch-size", largest).returncode == 0
    assert run(*words, "--batch-size", largest + 1).returncode == 1
    text = run(*words, "--batch-size", 2000).stdout
    safe = result["largest_safe_batch"]
    assert 0 < safe <= largest and result_of(*words, "--batch-size", safe)["safe_fits"]
    for part in ("does not fit", "lacks", f"largest batch   {safe} is safe, {largest} fits", "most of it"):
        assert part in text


def test_text_and_files(tmp_path):
    done = run("estimate", "resnet18", "-o", tmp_path / "r.html", "-o", tmp_path / "r.json", "-o", tmp_path / "r.txt")
    assert (done.returncode, done.stderr) == (0, "")
    for part in ("fits", "safe figure", "peak reserved", "peak allocated", "context", "at the peak", "iteration 1",
                 "largest at the peak"):
        assert part in done.stdout and part in (tmp_path / "r.txt").read_text()
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert json.loads((tmp_path / "r.json").read_text())["command"] == "estimate"
    assert "predicted for a100-40gb" in (tmp_path / "r.html").read_text()


def test_fit_agrees_with_estimate():
    result = result_of("fit", "resnet18", "--gpu", "rtx3060", "--gpu", "rtx4060", "--batch-size", 200)
    assert [row["gpu"] for row in result["gpus"]] == ["rtx4060", "rtx3060"]  # smallest first
    for row in result["gpus"]:
        assert row["max_batch_with_plan"] is None
        for batch, code in ((row["max_batch"], 0), (row["max_batch"] + 1, 1), (200, 0 if row["fits"] else 1)):
            assert run("estimate", "resnet18", "--gpu", row["gpu"], "--batch-size", batch).returncode == code
    assert result["smallest_gpu"] == next(row["gpu"] for row in result["gpus"] if row["fits"])


def test_the_batch_that_fit_recommends_is_safe():
    words = ("resnet50", "--gpu", "rtx3060", "--optimizer", "adam")
    [row] = result_of("fit", *words, "--batch-size", 1)["gpus"]
    assert 0 < row["max_batch_safe"] < row["max_batch"] and row["fits"] and row["safe_fits"]
    assert result_of("estimate", *words, "--batch-size", row["max_batch_safe"])["safe_fits"]
    assert not result_of("estimate", *words, "--batch-size", row["max_batch"])["safe_fits"]
    text = run("fit", *words, "--batch-size", row["max_batch"]).stdout
    assert "safe on none of these; it may fit rtx3060" in text and "safe batch" in text


def test_what_no_rule_is_there_for_is_named():
    assert result_of("estimate", "resnet18")["not_counted"] == []
    assert result_of("estimate", "opt-125m")["not_counted"] == ["scratch of aten::cumsum"]
    assert "not counted     scratch of aten::cumsum" in run("estimate", "opt-125m").stdout


def test_fit_does_not_depend_on_threads():
    words = ("fit", "mlp", "--gpu", "rtx3060", "--gpu", "t4", "--json")
    assert run(*words, "--threads", 1).stdout == run(*words, "--threads", 2).stdout


@pytest.mark.parametrize("verb", ["estimate", "fit"])
@pytest.mark.parametrize("words, parts", [
    (["resnet5"], ["resnet5: ", "did you mean ", "resnet50"]),
    (["resnet18", "--gpu", "rtx306"], ["rtx306", "did you mean rtx3060"]),
    (["resnet18", "--optimizer", "adm"], ["--optimizer: expected", "found adm", "did you mean adam"]),
    (["resnet18", "--batch-size", "0"], ["--batch-size: expected a positive whole number, found 0"]),
    (["resnet18", "--framework", "tensorflow", "--pool", "naive"], ["--pool: expected growth or fixed, found naive"]),
    (["resnet18", "--framework", "tensorflow", "--autocast", "bf16"], ["--autocast: of no use with TensorFlow"]),
    (["resnet18", "--framework", "tensorflow", "--alloc-conf", "x:1"], ["--alloc-conf: of no use with --framework tensorflow"]),
    (["no-such-model.pb"], ["no-such-model.pb: "]),
    (["no-such-model.pb", "--framework", "mxnet"], ["--framework mxnet: of no use with no-such-model.pb, expected tensorflow"]),
    (["resnet18", "--framework", "pytorhc"],
     ["--framework: expected pytorch, pytorch-2.6 to pytorch-2.15, mxnet or tensorflow, found pytorhc", "did you mean pytorch"]),
    (["resnet18", "--zero-grad", "middle"], ["--zero-grad: expected start, before-backward or end, found middle"]),
    (["resnet18", "--iterations", "0"], ["--iterations: expected a positive whole number, found 0"]),
    (["resnet18", "--alloc-conf", "no_such:1"], ["--alloc-conf: "]),
    (["resnet18", "--device", "cpu"], ["--device: not a flag"]),
    (["resnet18", "-o", "r.csv"], ["-o r.csv: expected a name that ends in"]),
    ([], ["expected a MODEL"]),
])
def test_bad_usage_is_one_line_and_exit_2(verb, words, parts):
    assert_refused(run(verb, *words), f"ebbtide {verb}: ", *parts)


@pytest.mark.parametrize("change, part", [
    (lambda p: p.pop("memory_bytes"), "the field memory_bytes is missing"),
    (lambda p: p["memory_bytes"].update(value=-1), "a whole number from"),
    (lambda p: p["memory_bytes"].update(value="12"), ""),
    (lambda p: p["context_bytes"].update(value=7 * 2**40), "a whole number from"),
    (lambda p: p.update(tentacles=8), "not a field of a profile"),
])
def test_profiles_with_missing_or_absurd_fields(checkout, tmp_path, change, part):
    profile = json.loads((checkout / "profiles" / "rtx3060.json").read_text())
    change(profile)
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(profile))
    assert_refused(run("estimate", "mlp", "--gpu", path), f"ebbtide estimate: {path}: ", part)


@pytest.mark.parametrize(("scheduler", "line"), [
    ("hami", "    nvidia.com/gpumem: {mib}  # MiB of each GPU"),
    ("kai", '    gpu-memory: "{mib}"  # MiB'),
    ("mps", 'export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0={mib}M"'),
    ("slurm", "#SBATCH --gres=shard:{gib}"),
])
def test_a_scheduler_is_asked_for_the_safe_figure(scheduler, line):
    words = ("estimate", "resnet18", "--batch-size", 8, "--gpu", "rtx3060")
    safe = result_of(*words)["safe_bytes"]
    mib, gib = -(-safe // 2**20), -(-safe // 2**30)
    text = run(*words, "--emit", scheduler).stdout
    assert line.format(mib=mib, gib=gib) in text.splitlines()
    assert result_of(*words, "--emit", scheduler)["emit"] == {
        "scheduler": scheduler, "memory_mib": mib, "gpus": 1, "text": text}


def test_a_scheduler_that_is_not_known():
    assert_refused(run("estimate", "resnet18", "--emit", "k8s"), "--emit k8s: expected hami, kai, mps or slurm")
