"""The command behind `ebbtide capture`: files in, files out, and one line for every mistake."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from ebbtide.commands.capture import main  # noqa: E402

SCRIPT = """
import torch
from torch import nn

class Asks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        if self.layer(x).sum() > 0:
            x = -x
        return self.layer(x).sum()

def step(batch_size=4):
    print("made", batch_size)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, nn.functional.mse_loss, optimizer, (torch.ones(batch_size, 3), torch.ones(batch_size, 2))

def asks():
    return Asks(), None, None, torch.ones(1, 2)

def three():
    return 1, 2, 3

def fails():
    raise KeyError("nothing here")

number = 3
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


def test_function_is_called_with_the_batch_size(script, tmp_path, capsys):
    out = tmp_path / "step.json"
    assert main([f"{script}:step", "--batch-size", "5", "-o", str(out), "--json"]) == 0
    graph = json.loads(out.read_text())
    shown = capsys.readouterr()
    report = json.loads(shown.out)  # what the script prints goes to standard error
    assert "made 5" in shown.err
    assert report.keys() >= {"schema_version", "path", "ops", "storages", "seconds", "parameters"}
    assert report["path"] == str(out) and report["ops"] == len(graph["ops"]) and report["parameters"] == 3 * 2 + 2
    assert next(t["shape"] for t in graph["tensors"] if t.get("name") == "batch.0") == [5, 3]
    assert graph["name"] == "train.py:step"


def test_built_in_model(tmp_path, capsys):
    out = tmp_path / "mlp.json.gz"
    assert main(["mlp", "--widths", "8,4,2", "--optimizer", "adam", "--batch-size", "3", "-o", str(out)]) == 0
    assert "mlp:" in capsys.readouterr().out and out.read_bytes()[:2] == b"\x1f\x8b"


@pytest.mark.parametrize(("target", "expected"), [
    ("{script}:asks", r"train.py:11: .item(), or `if`, int() or float() of a tensor, needs the values of a tensor"),
    ("{script}:three", "train.py:three returns 3 values; expected (model, loss_fn, optimizer, batch)"),
    ("{script}:fails", "train.py:28: KeyError: 'nothing here'"),
    ("{script}:number", "train.py: no function 'number'; it has step, asks, three, fails"),
    ("{script}:missing", "train.py: no function 'missing'; it has step, asks, three, fails"),
    ("{script}", "train.py: expected"),
    ("{script}.txt:step", "train.py.txt: no such file; expected SCRIPT.py:function"),
    ("resnet51", "resnet51: no such built-in model; nearest: resnet50"),
])
def test_mistakes_take_one_line(script, tmp_path, capsys, target, expected):
    assert main([target.format(script=script), "-o", str(tmp_path / "step.json")]) == 2
    shown = capsys.readouterr()
    lines = [line for line in shown.err.splitlines() if not line.startswith("made")]
    assert len(lines) == 1 and lines[0].startswith("ebbtide: ") and expected in lines[0]
    assert not shown.out and not (tmp_path / "step.json").exists()


@pytest.mark.parametrize(("text", "expected"), [
    ("def step(:\n  pass\n", "broken.py:1: SyntaxError"),
    ("import torch\nimport no_such_module\n", "broken.py:2: ModuleNotFoundError: No module named 'no_such_module'"),
    ("import sys\nsys.exit(0)\n", "broken.py: exits when it is loaded"),
])
def test_scripts_that_do_not_load(tmp_path, capsys, text, expected):
    path = tmp_path / "broken.py"
    path.write_text(text)
    assert main([f"{path}:step", "-o", str(tmp_path / "step.json")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert expected in line


def test_size_that_the_function_does_not_take(script, tmp_path, capsys):
    assert main([f"{script}:three", "--seq-len", "8", "-o", str(tmp_path / "step.json")]) == 2
    assert "takes no seq_len; expected a parameter of that name" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["x.py:f"], ["mlp", "-o", "x", "--batch-size", "0"], ["mlp", "-o", "x", "--no-such-flag"]])
def test_usage(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    (line,) = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2 and line.startswith("ebbtide: capture: ")


def test_examples_are_captured(checkout, tmp_path, capsys):
    for name in ("mlp", "resnet", "gpt2"):
        out = tmp_path / f"{name}.json"
        assert main([f"{checkout}/examples/{name}.py:training_step", "--batch-size", "2", "-o", str(out)]) == 0, name
    capsys.readouterr()


def test_as_a_program(script, tmp_path):
    command = [sys.executable, "-m", "ebbtide.commands.capture", f"{script}:step", "-o", str(tmp_path / "step.json"), "-q"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "made 4\n")
