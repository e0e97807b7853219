"""What is kept from run to run: damaged, exchanged, planted or of another form, it counts as none. Nothing is imported from the
current folder."""

import contextlib
import itertools
import json
import os
import stat
import subprocess

import pytest

torch = pytest.importorskip("torch")

from support.command_line import PROGRAM  # noqa: E402

import ebbtide  # noqa: E402
from ebbtide import files  # noqa: E402
from ebbtide.native import torch_library  # noqa: E402


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "ebbtide"


def _losses(lr=1e-3):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(16, 3))
    x, y = torch.randn(8, 16), torch.randint(0, 3, (8,))
    step = ebbtide.step(model, torch.nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters(), lr), (x, y), budget="95%")
    return [step(x, y).item() for _ in range(3)]


# ---- What is kept

def test_what_was_kept_is_read(tmp_path):
    files.keep(tmp_path / "new" / "a.json", {"b": [1, None]})
    assert files.read_kept(tmp_path / "new" / "a.json", lambda value: True) == {"b": [1, None]}
    assert files.read_kept(tmp_path / "new" / "none.json", lambda value: True) is None
    assert stat.S_IMODE(os.stat(tmp_path / "new").st_mode) == 0o700


def test_whatever_else_is_there_counts_as_none(tmp_path):
    path = tmp_path / "a.json"
    files.keep(path, {"b": 12345})
    whole = path.read_bytes()
    for broken in [b"", whole[:-1], whole.replace(b"12345", b"12346"), b"[]", b'"x"', b"{}", b'{"sum": 3, "content": 4}', b"[" * 100_000, b"\xff"]:
        path.write_bytes(broken)
        assert files.read_kept(path, lambda value: True) is None, broken[:40]
    path.write_bytes(whole)
    assert files.read_kept(path, lambda value: value["other"]) is None  # not the form that its user expects
    (tmp_path / "b.json").write_bytes(whole)
    assert files.read_kept(tmp_path / "b.json", lambda value: True) is None  # exchanged
    path.unlink()
    os.mkfifo(path)
    assert files.read_kept(path, lambda value: True) is None
    assert files.read_kept(tmp_path, lambda value: True) is None
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    assert files.read_kept(tmp_path / "zero.json", lambda value: True) is None


def test_nothing_is_read_from_where_others_can_write(tmp_path):
    folder = tmp_path / "shared"
    files.keep(folder / "a.json", 1)
    folder.chmod(0o777)
    files._say_once.cache_clear()
    with pytest.warns(UserWarning, match=f"{folder}: others can write there"):
        files.keep(folder / "b.json", 1)
    assert files.read_kept(folder / "a.json", lambda value: True) is None
    assert not (folder / "b.json").exists()
    folder.chmod(0o700)
    assert files.read_kept(folder / "a.json", lambda value: True) == 1
    (folder / "a.json").chmod(0o666)
    assert files.read_kept(folder / "a.json", lambda value: True) is None


def _kept(folder):
    return sorted(path for path in folder.rglob("*.json"))


def test_steps_that_differ_in_their_learning_rate_alone_share_a_plan(cache, one_thread):
    first = _losses()
    assert _losses() == first  # and plans by the times that the first has measured in place
    kept = _kept(cache / "plans")
    assert _losses(lr=1e-2) != first
    assert _kept(cache / "plans") == kept
    assert _losses() == first


def test_a_step_does_not_depend_on_what_the_cache_holds(cache, one_thread):
    expected = _losses()
    kept = {path: path.read_bytes() for path in _kept(cache)}
    assert {path.parent.name for path in kept} == {"op-times", "plans"}

    def write(path, content):
        path.write_text(json.dumps({"sum": files._sum_of(path, content), "content": content}))

    def edited(change):
        for path in kept:
            content = json.loads(kept[path])["content"]
            if path.parent.name == "op-times":
                change(content)
            write(path, content)

    def exchanged(content):
        for one, other in itertools.pairwise([found for found in content.values() if found]):
            one["requests"], other["requests"] = other["requests"], one["requests"]

    def each(name, value):
        return lambda content: [found.update({name: value}) for found in content.values() if found]

    changes = [exchanged, each("requests", [5, 4, 3, 2, 1, 0] * 3), each("requests", [2**31 - 1]), each("requests", "x"), each("time_ns", -1),
               lambda content: [found.pop("time_ns") for found in content.values() if found]]
    for change in changes:  # with a sum that is right, as somebody might write it
        edited(change)
        with contextlib.suppress(torch.OutOfMemoryError):  # well formed but untrue, it may lead to a plan that has too little room
            assert _losses() == expected
    for content in (b"{}", b"\0" * 100):
        for path in kept:
            path.write_bytes(content)
        assert _losses() == expected
    for path in _kept(cache / "op-times"):
        assert files.read_kept(path, lambda value: True) is not None  # made anew


# ---- Libraries

def test_a_damaged_library_is_made_again_and_a_planted_one_is_not_loaded(cache, monkeypatch):
    made = []

    def compile_for(torch, paths):
        for path in paths.values():
            path.write_bytes(b"library")
            made.append(path)

    monkeypatch.setattr(torch_library, "compile_for", compile_for)
    monkeypatch.setattr(torch_library.TorchPackage, "build_name", lambda self, library: "kernels-other.so")
    path = cache / "torch" / "kernels-other.so"
    assert torch_library.library() == str(path) and len(made) == 1 and made[0].parent == path.parent
    assert torch_library.library() == str(path) and len(made) == 1
    path.write_bytes(path.read_bytes()[:-80] + b"x" * 80)
    assert torch_library.library() == str(path) and len(made) == 2  # damaged
    path.write_bytes(b"planted")
    assert torch_library.library() == str(path) and len(made) == 3
    path.parent.chmod(0o777)
    files._say_once.cache_clear()
    with pytest.warns(UserWarning, match="others can write there"):
        elsewhere = torch_library.library()
    assert not elsewhere.startswith(str(cache)) and len(made) == 4
    path.parent.chmod(0o700)
    path.unlink()
    os.mkfifo(path)
    assert torch_library.library() == str(path) and len(made) == 5


# ---- The current folder

@pytest.fixture
def elsewhere(tmp_path):
    """A folder with a torch.py of somebody else, and a script with a neighbour in another."""
    current, scripts = tmp_path / "current", tmp_path / "scripts"
    current.mkdir()
    scripts.mkdir()
    for name in ("torch.py", "ebbtide.py", "json.py", "numpy.py", "runpy.py", "importlib.py", "copy.py"):
        (current / name).write_text("open('was-run', 'w').close()\nraise SystemExit('imported from the current folder')\n")
    (scripts / "torch.py").write_text("raise SystemExit('imported from the folder of the script')\n")
    (scripts / "neighbour.py").write_text("WIDTH = 8\n")
    (scripts / "step.py").write_text(
        "import torch\nfrom neighbour import WIDTH\n"
        "def make():\n    model = torch.nn.Linear(WIDTH, 2)\n"
        "    return model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.1), (torch.ones(4, WIDTH), torch.ones(4, 2))\n")
    return current, f"{scripts / 'step.py'}:make"


@pytest.mark.parametrize("words", [
    ["train", "SCRIPT", "--steps", "1"], ["profile", "SCRIPT"], ["capture", "SCRIPT", "-o", "step.json"], ["plan", "SCRIPT", "--budget", "100%"],
    ["share", "--script", "SCRIPT", "--capacity", "16MiB", "--steps", "1"]], ids=lambda words: words[0])
def test_nothing_is_imported_from_the_current_folder(elsewhere, words, cache):
    current, script = elsewhere
    done = subprocess.run([PROGRAM, *(script if word == "SCRIPT" else word for word in words)], cwd=current, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not (current / "was-run").exists()


def test_a_script_may_be_called_torch(tmp_path, cache):
    (tmp_path / "torch.py").write_text("def make():\n    import torch.nn as nn\n    return nn.Linear(2, 2), (lambda out: out.sum()), None, None\n")
    done = subprocess.run([PROGRAM, "capture", f"{tmp_path / 'torch.py'}:make", "-o", str(tmp_path / "x.json")], capture_output=True, text=True)
    assert done.returncode == 2 and "circular" not in done.stderr and done.stderr.count("\n") == 1, done.stderr
