"""The edges of the command line: what is almost right is told how to be right, and everything can be left."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from support.command_line import HAS_PHANTOM, PROGRAM, assert_refused, result_of, run

MLP = ("mlp", "--widths", "64,512,512,512,10", "--batch-size", "512")
PLAN = ("plan", *MLP, "--budget", "90%")
SCRIPT = """import torch
from torch import nn

def helper(width):
    return nn.Linear(width, width)

def step(batch_size=4):
    model = helper(16)
    return model, nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), (torch.zeros(batch_size, 16), torch.zeros(batch_size, 16))
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path / "train.py"


# ---- What was meant


@pytest.mark.parametrize("verb", ["estimate", "inspect", "fit", "plan", "capture", "train"])
def test_a_script_without_a_function_lists_its_functions(verb, script):
    assert_refused(run(verb, script), f"{script}:step or {script}:helper")
    assert_refused(run(verb, f"{script}:"), f"{script}:step or {script}:helper")


def test_a_file_that_is_not_there_is_told_so(tmp_path):
    assert_refused(run("estimate", tmp_path / "none.py"), "no such file")
    assert_refused(run("estimate", tmp_path / "config.json", "--quantize", "nf4"), "config.json: no such file")


def test_dryrun_asks_for_the_dashes():
    assert_refused(run("dryrun", "--gpu", "t4", "python", "train.py", "--epochs", "3"),
                   "python: expected -- before the program, as in: ebbtide dryrun --gpu t4 -- python train.py --epochs 3")


@pytest.mark.parametrize(("written", "meant"), [
    ("a100", "did you mean a100-40gb or a100-80gb?"), ("4090", "did you mean rtx4090?"), ("RTX 4090", "did you mean rtx4090?"),
    ("NVIDIA A100", "did you mean a100-40gb or a100-80gb?"), ("v100", "did you mean v100-16gb or v100-32gb?"), ("h100", "did you mean h100-80gb?")])
def test_gpus_are_suggested(written, meant):
    assert_refused(run("estimate", "resnet18", "--gpu", written), meant)


def test_a_letter_alone_is_a_binary_unit():
    assert result_of("plan", "mlp", "--budget", "8G")["budget_bytes"] == 8 * 2**30


@pytest.mark.parametrize("words", [("plan", "mlp", "--budget", "8"), ("share", "mlp:8", "mlp:8", "--capacity", "8"), ("train", "mlp", "--budget", "8")])
def test_a_small_number_is_asked_for_its_unit(words):
    assert_refused(run(*words), f"{words[-2]}: '8': expected a unit, as 8GiB")


@pytest.mark.parametrize(("written", "meant"), [("estimat", "estimate"), ("simulat", "simulate"), ("dry-run", "dryrun"), ("gpu", "gpus")])
def test_verbs_are_suggested(written, meant):
    assert_refused(run(written), f"{written}: not a verb; did you mean {meant}?")


def test_help_is_a_verb():
    assert run("help").stdout == run("--help").stdout
    assert run("help", "plan").stdout == run("plan", "--help").stdout
    assert_refused(run("help", "plam"), "did you mean plan?")


# ---- Columns


def numbers_of(text):
    """All but those beside a plot, which is as wide as there is room."""
    text = re.sub(r"^.*[▁▂▃▄▅▆▇█╵].*$", "", text, flags=re.MULTILINE)
    return set(re.findall(r"(?<![\w.…])\d[\d.,]*\d(?![\w…])|(?<![\w.…])\d(?![\w.…])", text)) | set(re.findall(r"\b\d+(?:×\d+)+\b", text))


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize("words", [
    ("inspect", "resnet18"), ("estimate", "resnet50", "--batch-size", "256", "--gpu", "rtx3060"), ("fit", "resnet18", "--gpu", "rtx3060"), ("gpus",),
    PLAN, ("share", "mlp:8", "mlp:16", "--gpu", "rtx3060")], ids=lambda words: words[0])
def test_no_number_is_cut(words, columns):
    """Each number of the wide table is in the narrow one, and no line is wider than the terminal."""
    wide, narrow = run(*words, COLUMNS="90"), run(*words, COLUMNS=str(columns))
    assert max(map(len, narrow.stdout.splitlines())) <= columns
    assert numbers_of(wide.stdout) <= numbers_of(narrow.stdout)


@pytest.fixture(scope="module")
def long_names(tmp_path_factory):
    """A captured step whose layers have names that no terminal is wide enough for."""
    folder = tmp_path_factory.mktemp("long")
    layer = "the_first_projection_of_the_encoder_tower_that_goes_on_and_on"
    (folder / "train.py").write_text(SCRIPT.replace("model = helper(16)", f"model = nn.ModuleDict({{{layer!r}: helper(16)}})\n    "
                                                    f"model.forward = lambda x: model[{layer!r}](x).relu()"))
    words = ("capture", folder / "train.py:step", "-o", folder / "step.json")
    said = {columns: run(*words, COLUMNS=str(columns)).stdout for columns in (40, 80)}
    return folder / "step.json", said


@pytest.mark.parametrize("columns", [40, 80])
def test_long_names_are_shortened_and_numbers_are_not(long_names, columns):
    step, said = long_names
    assert "ops" in said[columns] and all(len(line) <= columns or " " not in line.strip() for line in said[columns].splitlines())
    for verb in (("inspect",), ("estimate",), ("plan", "--budget", "90%")):
        wide, narrow = run(verb[0], step, *verb[1:], COLUMNS="200"), run(verb[0], step, *verb[1:], COLUMNS=str(columns))
        assert wide.returncode in (0, 1) and max(map(len, narrow.stdout.splitlines())) <= columns, verb
        assert "…" in narrow.stdout or verb[0] != "inspect"
        assert numbers_of(wide.stdout.replace(str(step), "")) <= numbers_of(narrow.stdout), verb  # the path is a name


# ---- Pages


def data_of(page):
    return json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL).group(1))


def test_every_result_has_a_page(tmp_path, script):
    """What any verb prints with --json, `report` takes; what -o x.json writes too."""
    capture = tmp_path / "step.json"
    results = {
        "models": run("models", "--json").stdout, "gpus": run("gpus", "--json").stdout, "inspect": run("inspect", "mlp", "--json").stdout,
        "estimate": run("estimate", "mlp", "--json").stdout, "fit": run("fit", "mlp", "--gpu", "t4", "--json").stdout,
        "plan": run(*PLAN, "--json", "-o", tmp_path / "plan.json").stdout,
        "simulate": run("simulate", *MLP, "--plan", tmp_path / "plan.json", "--json").stdout,
        "share": run("share", "mlp:8", "mlp:8", "--gpu", "t4", "--json").stdout,
        "capture": run("capture", f"{script}:step", "-o", capture, "--json").stdout,
        "help": run("help", "plan", "--json").stdout, "the plan itself": (tmp_path / "plan.json").read_text(), "the step itself": capture.read_text()}
    for name, text in results.items():
        (tmp_path / "result.json").write_text(text)
        done = run("report", tmp_path / "result.json", "-o", tmp_path / "page.html")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), name
        assert "about" in data_of((tmp_path / "page.html").read_text())


@pytest.mark.parametrize("words", [("inspect", "mlp"), ("fit", "mlp", "--gpu", "t4"), ("estimate", "mlp"), PLAN,
                                   ("share", "mlp:8", "mlp:8", "--gpu", "t4")], ids=lambda words: words[0])
def test_pages_say_what_they_are_of(words, tmp_path):
    page = tmp_path / "page.html"
    made = []
    for threads in ("1", "2"):
        assert run(*words, "--threads", threads, "-o", page, SOURCE_DATE_EPOCH="1700000000").returncode == 0
        made.append(page.read_text())
    assert made[0] == made[1]  # -o and --threads make no difference
    provenance = json.loads(re.search(r'<script id="provenance" type="application/json">(.*?)</script>', made[0]).group(1))
    assert provenance["command"] == " ".join(("ebbtide", *words))
    assert provenance["date"] == "2023-11-14"
    assert re.fullmatch(r"\d+\.\d+\.\d+", provenance["version"])
    about = data_of(made[0])["about"]
    facts = dict(map(tuple, about["facts"]))
    if words[0] == "share":
        assert facts["training"] == "mlp, batch 8, float32, optimizer sgd"
    else:
        assert facts["model"] == "mlp"
    if words[0] in ("estimate", "inspect", "plan"):
        batch = "512" if words[0] == "plan" else "32"
        assert (facts["batch"], facts["optimizer"], facts["dtype"]) == (batch, "sgd", "float32")
    if words[0] == "estimate":
        assert "GiB" in facts["GPU"] and "MiB" in facts["safe figure"]
        assert (about["verdict"], about["says"]) == ("good", "Fits, and so does the safe figure")


# ---- Ctrl-C


def interrupted(words, when, whole_group=True, cwd=None, **environment):
    """Starts the program, and sends SIGINT once `when` holds: to it and all it has started, as a terminal does, or to it alone."""
    kept = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    process = subprocess.Popen([PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=cwd,
                               env={**kept, **environment}, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    deadline = time.monotonic() + 60
    while not when() and time.monotonic() < deadline:
        time.sleep(0.01)
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)  # a claim of one second is bench/soak's to measure
    return process.returncode, out, err


def test_ctrl_c_ends_a_capture_with_one_line(tmp_path):
    """While the script's own code runs, and would for minutes."""
    (tmp_path / "slow.py").write_text(f"import pathlib, time\npathlib.Path({str(tmp_path / 'begun')!r}).touch()\ntime.sleep(100)\ndef step(): pass\n")
    words = ("capture", tmp_path / "slow.py:step", "-o", tmp_path / "step.json")
    assert interrupted(words, (tmp_path / "begun").exists) == (130, "", "ebbtide: interrupted\n")
    assert not (tmp_path / "step.json").exists()


def test_ctrl_c_ends_what_does_not_listen(tmp_path):
    (tmp_path / "deaf.py").write_text(
        "import pathlib, signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"pathlib.Path({str(tmp_path / 'begun')!r}).touch()\ntime.sleep(100)\ndef step(): pass\n")
    words = ("estimate", tmp_path / "deaf.py:step")
    assert interrupted(words, (tmp_path / "begun").exists, TMPDIR=str(tmp_path)) == (130, "", "ebbtide: interrupted\n")
    assert not list(tmp_path.glob("ebbtide-*"))  # its folder is gone


def test_ctrl_c_ends_a_plan_with_one_line():
    begun = time.monotonic()
    words = ("plan", "densenet121", "--batch-size", "64", "--budget", "30%", "--compare", "--pareto")
    assert interrupted(words, lambda: time.monotonic() > begun + 0.3) == (130, "", "ebbtide: interrupted\n")


@pytest.mark.skipif(not HAS_PHANTOM, reason="the build has no phantom GPU")
def test_the_first_ctrl_c_of_a_dry_run_is_the_program_s(tmp_path):
    (tmp_path / "own.py").write_text(
        f"import pathlib, time\ntry:\n    pathlib.Path({str(tmp_path / 'begun')!r}).touch()\n    time.sleep(100)\n"
        "except KeyboardInterrupt:\n    raise SystemExit(7)\n")
    code, out, _ = interrupted(("dryrun", "-q", "--", sys.executable, "own.py"), (tmp_path / "begun").exists, whole_group=False, cwd=tmp_path)
    assert (code, out) == (7, "")
