"""The program as a user runs it: exit codes, one-line errors, the JSON fields, what goes to which stream."""

import gzip
import json
import re
import subprocess

import pytest
from support.command_line import PROGRAM, assert_refused, result_of, run, run_on_terminal

ESCAPE = "\x1b"
# Those whose section of the manual has a row for each flag; the others' sections also refer to each other.
LISTED = ["models", "gpus", "cache", "inspect", "plan", "simulate", "share", "capture", "dryrun"]
VERBS = [*LISTED, "estimate", "fit", "cluster", "run", "train", "profile", "verify", "replay", "explain", "advise", "pack", "report", "help",
         "completion"]


# ---- Help and version


def test_version_names_the_program():
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"ebbtide \d+\.\d+\.\d+\n", done.stdout)


def test_help_lists_every_verb():
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for verb in VERBS:
        assert re.search(rf"^  {verb} +\w", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_the_flags_of_all_verbs(verb):
    done = run(verb, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    for flag in ("--json", "-o, --output FILE", "-q, --quiet", "-v, --verbose", "--seed N", "--threads N"):
        assert flag in done.stdout


def test_help_is_the_manual_s(checkout):
    """docs/command-line.md has every flag that the program has, and no other."""
    manual = (checkout / "docs" / "command-line.md").read_text()

    def section(title):
        return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", manual, re.MULTILINE | re.DOTALL).group(1)

    def flags(text):
        return set(re.findall(r"^\| `(?:-\w`, `)?(--[a-z][a-z-]+)", text, re.MULTILINE))

    for verb in LISTED:
        in_help = set(re.findall(r"--[a-z][a-z-]+", run(verb, "--help").stdout))
        text = section(f"ebbtide {verb}")
        in_manual = flags(text + section("Flags of every verb"))
        if shared := re.search(r"flags of MODEL are those of `inspect`, without (.*?)[.:]", text):
            in_manual |= flags(section("ebbtide inspect")) - set(re.findall(r"--[a-z][a-z-]+", shared.group(1)))
        assert in_help == in_manual, verb


def test_every_flag_is_in_the_manual(checkout):
    """By name, in the verb's section or in one that it refers to ("as for `capture`", "those of `estimate`")."""
    manual = (checkout / "docs" / "command-line.md").read_text()
    sections = dict(re.findall(r"^## (?:ebbtide )?([^\n]+)\n(.*?)(?=^## |\Z)", manual, re.MULTILINE | re.DOTALL))
    sections["pack"] = (checkout / "docs" / "pack.md").read_text()

    def named(verb):
        text = sections[verb]
        referred = re.findall(r"(?:as for|those of)\s+`(\w+)`", text)
        return set(re.findall(r"--[a-z][a-z-]+", text)).union(*(named(other) for other in referred))

    common = set(re.findall(r"--[a-z][a-z-]+", sections["Flags of every verb"]))
    for verb in VERBS:
        in_help = set(re.findall(r"--[a-z][a-z-]+", run(verb, "--help").stdout))
        assert in_help <= named(verb) | common, (verb, sorted(in_help - named(verb) - common))


# ---- models


def test_models_json():
    result = result_of("models")
    assert result["schema_version"] == 1
    assert result["command"] == "models"
    names = [model["name"] for model in result["models"]]
    assert len(names) == len(set(names))
    for model in result["models"]:
        assert set(model) == {"name", "family", "description"}
        assert all(isinstance(text, str) and text for text in model.values())


def test_models_lists_what_is_promised():
    names = {model["name"] for model in result_of("models")["models"]}
    assert names >= set("""
        alexnet vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 inception_v3 inception_v4 densenet121
        densenet169 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large mnasnet1_0 efficientnet_b0 xception
        regnet_x_400mf regnet_y_400mf convnext_tiny convnext_base unet lstm mlp bert-base bert-large gpt2 gpt2-medium
        gpt2-large gpt2-xl distilgpt2
        gpt-neo-125m opt-125m opt-350m cerebras-gpt-111m t5-small t5-base llama-3.2-1b llama-3.2-3b qwen3-4b gemma-2-2b
        deepseek-r1-distill-qwen-1.5b""".split())


def test_models_text_has_each_model_once_under_its_family():
    text = run("models").stdout
    blocks = {block.splitlines()[0]: block for block in text.split("\n\n")}
    for model in result_of("models")["models"]:
        assert re.search(rf"^  {re.escape(model['name'])}( |$)", blocks[model["family"]], re.MULTILINE)


# ---- inspect


@pytest.fixture(scope="module")
def resnet():
    return result_of("inspect", "resnet18", "--batch-size", "2")


def test_inspect_fields_and_types(resnet):
    whole = ["schema_version", "parameters", "forward_flops", "saved_bytes", "saved_storages", "persistent_bytes",
             "peak_bytes", "ops", "tensors", "storages", "time_ns"]
    for field in whole:
        assert type(resnet[field]) is int, field
    assert resnet["schema_version"] == 1
    assert (resnet["command"], resnet["model"]) == ("inspect", "resnet18")
    assert set(resnet["ops_by_phase"]) == set(resnet["flops_by_phase"]) == {"forward", "backward", "update"}
    assert set(resnet["bytes_by_kind"]) == {"parameter", "buffer", "gradient", "optimizer_state", "input", "activation",
                                            "temporary"}
    assert set(resnet["peak_at"]) == {"op", "kind", "phase", "layer"}
    for kind in resnet["ops_by_kind"]:
        assert set(kind) == {"kind", "forward", "backward", "update", "flops", "time_ns"}
    for tensor in resnet["largest_tensors"]:
        assert set(tensor) == {"storage", "bytes", "kind", "dtype", "shape", "name", "made_by", "layer", "saved"}


def test_inspect_figures_fit_together(resnet):
    assert resnet["parameters"] == 11_689_512  # torchvision's resnet18
    assert resnet["bytes_by_kind"]["parameter"] == 4 * resnet["parameters"]
    assert resnet["ops"] == sum(resnet["ops_by_phase"].values())
    assert resnet["ops"] == sum(kind[phase] for kind in resnet["ops_by_kind"] for phase in resnet["ops_by_phase"])
    assert resnet["forward_flops"] == resnet["flops_by_phase"]["forward"] > 0
    persistent = ("parameter", "buffer", "optimizer_state", "input")
    assert resnet["persistent_bytes"] == sum(resnet["bytes_by_kind"][kind] for kind in persistent)
    assert resnet["peak_bytes"] >= resnet["persistent_bytes"] + resnet["saved_bytes"] // 2
    assert max(resnet["live_bytes"]) == resnet["peak_bytes"]
    assert len(resnet["live_bytes"]) <= 256
    assert 0 <= resnet["peak_at"]["op"] < resnet["ops"]
    sizes = [tensor["bytes"] for tensor in resnet["largest_tensors"]]
    assert len(sizes) == 10 and sizes == sorted(sizes, reverse=True)


def test_batch_size_scales_what_is_saved(resnet):
    twice = result_of("inspect", "resnet18", "--batch-size", "4")
    assert twice["parameters"] == resnet["parameters"]
    assert twice["forward_flops"] == 2 * resnet["forward_flops"]
    assert resnet["saved_bytes"] < twice["saved_bytes"] <= 2 * resnet["saved_bytes"]


def test_widths_give_the_layers_of_mlp():
    result = result_of("inspect", "mlp", "--widths", "784,512,10", "--batch-size", "8")
    assert result["parameters"] == 784 * 512 + 512 + 512 * 10 + 10
    assert result["forward_flops"] == 2 * 8 * (784 * 512 + 512 * 10)


def test_optimizer_brings_its_state():
    states = {name: result_of("inspect", "mlp", "--optimizer", name)["bytes_by_kind"]["optimizer_state"]
              for name in ("none", "sgd", "adam")}
    parameters = result_of("inspect", "mlp")["bytes_by_kind"]["parameter"]
    assert states["none"] == states["sgd"] == 0
    assert states["adam"] >= 2 * parameters


def test_inspect_text_shows_each_figure():
    text = run("inspect", "resnet18", "--batch-size", "2").stdout
    for part in ("resnet18", "parameters          11,689,512\n", "forward FLOPs", "saved for backward", "persistent",
                 "optimizer state", "peak live", "live memory over the step", "ops by kind", "convolution",
                 "largest tensors"):
        assert part in text
    assert text.count("\n\n") == 4  # title, figures, plot, kinds, tensors


# ---- Streams, colours, widths


def test_text_without_a_terminal_is_plain():
    done = run("inspect", "resnet18", "--batch-size", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert ESCAPE not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_keeps_to_the_terminal(width):
    text = run_on_terminal("inspect", "resnet18", "--batch-size", "2", width=width)
    lines = re.sub(r"\x1b\[\d+m", "", text).splitlines()
    assert max(map(len, lines)) <= width
    assert any(len(line) > width - 10 for line in lines)  # the plot makes use of it


def test_colours_on_a_terminal_and_no_color():
    words = ("inspect", "resnet18", "--batch-size", "2")
    coloured = run_on_terminal(*words)
    plain = run_on_terminal(*words, NO_COLOR="1")
    assert ESCAPE in coloured
    assert ESCAPE not in plain
    assert ESCAPE not in run_on_terminal(*words, TERM="dumb")
    assert ESCAPE in run_on_terminal(*words, NO_COLOR="")  # as no-color.org has it: empty is unset
    assert re.sub(r"\x1b\[\d+m", "", coloured) == plain == run(*words).stdout


def test_ascii_where_the_locale_is_not_utf8():
    assert run("inspect", "resnet18", "--batch-size", "2", LC_ALL="C").stdout.isascii()
    assert not run("inspect", "resnet18", "--batch-size", "2", LC_ALL="C.UTF-8").stdout.isascii()


def test_verbose_speaks_on_standard_error_only():
    words = ("inspect", "resnet18", "--batch-size", "2")
    plain, verbose = run(*words), run(*words, "-v")
    assert verbose.stdout == plain.stdout
    assert plain.stderr == ""
    assert "ops" in verbose.stderr
    assert run(*words, "-q").stdout == plain.stdout


def test_same_input_same_output():
    words = ("inspect", "resnet18", "--batch-size", "2", "--json")
    outputs = {run(*words, *more).stdout for more in ((), ("--threads", "1"), ("--threads", "2"), ("--seed", "7"))}
    assert len(outputs) == 1


def test_a_full_disk_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run([PROGRAM, "models"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "ebbtide models: standard output: No space left on device\n"


# ---- Files


def test_output_file_has_the_object_or_the_table(tmp_path):
    words = ("inspect", "resnet18", "--batch-size", "2")
    done = run(*words, "--json", "-o", tmp_path / "r.json")
    assert (tmp_path / "r.json").read_text() == done.stdout
    done = run(*words, "-o", tmp_path / "r.txt", COLUMNS="100")
    assert (tmp_path / "r.txt").read_text() == done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.json", "r.txt"]


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_exported_graph_is_a_model_with_the_same_figures(tmp_path, resnet, suffix):
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    assert run("inspect", "resnet18", "--batch-size", "2", "--graph-out", first).returncode == 0
    again = result_of("inspect", first, "--graph-out", second)
    assert first.read_bytes() == second.read_bytes()
    assert {**again, "model": "resnet18"} == resnet
    text = gzip.decompress(first.read_bytes()) if suffix.endswith(".gz") else first.read_bytes()
    assert json.loads(text)["format"] == "ebbtide.graph"


def test_names_in_a_file_cannot_disturb_the_terminal(tmp_path):
    graph = {
        "format": "ebbtide.graph", "version": 1, "name": "x\x1b[2J\ny",
        "storages": [{"kind": "input", "bytes": 4, "name": "\x1b]0;title\x07"}, {"kind": "activation", "bytes": 4}],
        "tensors": [{"storage": 0, "dtype": "float32", "shape": [1]}, {"storage": 1, "dtype": "float32", "shape": [1]}],
        "ops": [{"kind": "re\rlu", "layer": "\x9b31m", "inputs": [0], "outputs": [1]}],
    }
    path = tmp_path / "hostile.json"
    path.write_text(json.dumps(graph))
    done = run("inspect", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.stdout)


# ---- Refusals


@pytest.mark.parametrize("words, parts", [
    ([], ["ebbtide: expected a verb", "models, gpus, cache, inspect"]),
    (["inspct"], ["ebbtide: ", "inspct", "did you mean inspect?"]),
    (["--json"], ["ebbtide: ", "--json"]),
    (["--json", "models"], ["ebbtide models: --json: expected behind the verb"]),
    (["models", "extra"], ["ebbtide models: extra: one word too many"]),
    (["models", "--batch-size", "3"], ["ebbtide models: --batch-size: not a flag of models"]),
    (["inspect"], ["ebbtide inspect: expected a MODEL"]),
    (["inspect", "resnet18", "resnet34"], ["ebbtide inspect: resnet34: one word too many"]),
    (["inspect", "resnet18", "--", "resnet34"], ["ebbtide inspect: resnet34: one word too many"]),
    (["inspect", "models"], ["ebbtide inspect: models: no built-in model"]),
    (["inspect", "resnet5"], ["ebbtide inspect: resnet5: ", "did you mean ", "resnet50"]),
    (["inspect", "BERT_base"], ["ebbtide inspect: BERT_base: ", "did you mean bert-base"]),
    (["inspect", "resnet18", "--gpu", "a1000"], ["ebbtide inspect: ", "a1000", "ebbtide gpus"]),
    (["inspect", "resnet18", "--batchsize", "3"], ["--batchsize: not a flag of inspect; did you mean --batch-size?"]),
    (["inspect", "resnet18", "--batch-size", "0"],
     ["ebbtide inspect: --batch-size: expected a positive whole number, found 0"]),
    (["inspect", "resnet18", "--batch-size", "-5"], ["--batch-size: expected a positive whole number, found -5"]),
    (["inspect", "resnet18", "--batch-size", "2.5"], ["--batch-size: expected a positive whole number, found 2.5"]),
    (["inspect", "resnet18", "--batch-size", "9" * 30], ["--batch-size: expected a positive whole number, found 999"]),
    (["inspect", "resnet18", "--batch-size", str(2**63 - 1)], ["ebbtide inspect: resnet18: "]),
    (["inspect", "resnet18", "--batch-size"], ["--batch-size: expected a value"]),
    (["inspect", "resnet18", "--batch-size="], ["--batch-size: expected"]),
    (["inspect", "resnet18", "--seq-len", "8"], ["ebbtide inspect: resnet18: --seq-len"]),
    (["inspect", "resnet18", "--assume-elementwise"], ["--assume-elementwise: of no use with resnet18"]),
    (["inspect", "model.onnx", "--widths", "3,4"], ["--widths: of no use with model.onnx"]),
    (["inspect", "no-such-file.onnx"], ["ebbtide inspect: no-such-file.onnx: "]),
    (["inspect", "mlp", "--widths", "3,,4"], ["--widths: expected positive whole numbers", "found 3,,4"]),
    (["inspect", "mlp", "--widths", "3"], ["--widths: expected at least two"]),
    (["inspect", "resnet18", "--optimizer", "adm"], ["--optimizer: expected", "found adm", "did you mean adam"]),
    (["inspect", "resnet18", "--device", "tpu"], ["--device: expected cpu or cuda, found tpu"]),
    (["inspect", "resnet18", "--threads", "0"], ["--threads: expected a whole number from 1", "found 0"]),
    (["inspect", "resnet18", "--seed", "-1"], ["--seed: expected a whole number from 0", "found -1"]),
    (["inspect", "resnet18", "--json=5"], ["--json: expected no value"]),
    (["inspect", "resnet18", "-o", "result.csv"], ["-o result.csv: expected", ".json, .txt or .html"]),
    (["inspect", "resnet18", "--graph-out", "graph.txt"], ["--graph-out graph.txt: expected", ".json or .json.gz"]),
    (["inspect", "resnet18", "-o", "no/such/folder/r.json"], ["no/such/folder/r.json: "]),
    (["inspect", "no-such-file.json"], ["ebbtide inspect: no-such-file.json: "]),
    (["inspect", "./model.bin"], ["ebbtide inspect: ./model.bin: expected a file that ends in "]),
    (["inspect", "bad\nname\x1b[31m"], ["ebbtide inspect: bad?name?[31m: "]),
    (["capture"], ["ebbtide capture: expected a SCRIPT.py:function"]),
    (["capture", "train.py", "-o", "s.json"], ["ebbtide capture: train.py: no such file"]),
    (["capture", "train.py:", "-o", "s.json"], ["ebbtide capture: train.py: no such file"]),
    (["capture", "train.py:f"], ["ebbtide capture: expected -o FILE"]),
    (["capture", "train.py:f", "-o", "s.txt"], ["ebbtide capture: -o s.txt: expected", ".json or .json.gz"]),
    (["capture", "train.py:f", "-o", "s.json", "--assume-elementwise"], ["--assume-elementwise: not a flag of capture"]),
    (["capture", "resnet5", "-o", "s.json"], ["ebbtide capture: resnet5: expected a SCRIPT.py:function", "did you mean resnet50"]),
    (["capture", "mlp", "-o", "s.json", "--optimizer", "adm"], ["--optimizer: expected", "found adm", "did you mean adam"]),
])
def test_bad_usage_is_one_line_and_exit_2(words, parts):
    assert_refused(run(*words), *parts)


@pytest.mark.parametrize("content, part", [
    (b"", ""), (b"{", ""), (b"[]", ""), (b"null", ""), (b'{"format": "other"}', "ebbtide.graph"), (b"\x1f\x8b", ""),
    (b"\xff\xfe", ""), (b"[" * 100_000, ""),
])
def test_bad_files_are_named(tmp_path, content, part):
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    assert_refused(run("inspect", path), f"ebbtide inspect: {path}: ", part)


def test_a_folder_is_no_graph(tmp_path):
    folder = tmp_path / "folder.json"
    folder.mkdir()
    assert_refused(run("inspect", folder), f"ebbtide inspect: {folder}: ")


@pytest.mark.parametrize("flag", [("--batch-size", "3"), ("--optimizer", "adam"), ("--device", "cuda")])
def test_a_graph_file_has_fixed_shapes(tmp_path, flag):
    path = tmp_path / "step.json"
    assert run("inspect", "mlp", "--graph-out", path).returncode == 0
    assert_refused(run("inspect", path, *flag), f"ebbtide inspect: {flag[0]}: of no use with {path}")


# ---- capture

SCRIPT = """
import torch
def step(batch_size=4):
    print("chatter")
    model = torch.nn.Linear(3, 2)
    return model, torch.nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), (
        torch.zeros(batch_size, 3), torch.zeros(batch_size, dtype=torch.long))
def broken():
    raise RuntimeError("no data here")
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_capture_writes_a_graph_that_inspect_reads(script, tmp_path):
    done = run("capture", f"{script}:step", "-o", tmp_path / "step.json", "--json", "-q")
    assert (done.returncode, done.stderr) == (0, "chatter\n")  # what the script prints is not our data
    report = json.loads(done.stdout)
    result = result_of("inspect", tmp_path / "step.json")
    assert result["parameters"] == report["parameters"] == 3 * 2 + 2
    assert (result["ops"], result["storages"]) == (report["ops"], report["storages"])
    assert report["schema_version"] == 1
    assert result["forward_flops"] == 2 * 4 * 3 * 2


def test_inspect_captures_a_script_function(script, tmp_path):
    (tmp_path / "tmp").mkdir()
    done = run("inspect", f"{script}:step", "--json", "--batch-size", "5", TMPDIR=str(tmp_path / "tmp"))
    assert (done.returncode, done.stderr) == (0, "chatter\n")
    result = json.loads(done.stdout)
    assert result["forward_flops"] == 2 * 5 * 3 * 2
    assert result["model"] == f"{script}:step"
    assert list((tmp_path / "tmp").glob("ebbtide*")) == []  # torch leaves a folder of its own


@pytest.mark.parametrize("verb", ["capture", "inspect"])
@pytest.mark.parametrize("function, part", [("missing", "missing"), ("broken", "no data here")])
def test_capture_tells_what_is_wrong_with_a_script(script, tmp_path, verb, function, part):
    more = ["-o", tmp_path / "step.json"] if verb == "capture" else []
    assert_refused(run(verb, f"{script}:{function}", *more), "train.py", part)
    assert not (tmp_path / "step.json").exists()


@pytest.mark.parametrize("verb", ["capture", "inspect"])
def test_capture_tells_what_python_lacks(script, tmp_path, verb):
    more = ["-o", tmp_path / "step.json"] if verb == "capture" else []
    target = f"{script}:step"
    assert_refused(run(verb, target, *more, EBBTIDE_PYTHON="/no/such/python"), "EBBTIDE_PYTHON", "/no/such/python")
    bare = tmp_path / "bare-python"  # without site-packages: no torch
    bare.write_text('#!/bin/sh\nexec python3 -S "$@"\n')
    bare.chmod(0o755)
    assert_refused(run(verb, target, *more, EBBTIDE_PYTHON=str(bare)), str(bare), "has no package torch")


def test_flags_that_a_script_function_cannot_use(script):
    assert_refused(run("inspect", f"{script}:broken", "--seq-len", "3"), "train.py:broken", "seq_len")
    assert_refused(run("inspect", f"{script}:step", "--widths", "3,2"), "--widths: of no use with ", "train.py:step")
