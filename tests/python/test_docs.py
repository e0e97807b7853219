"""The tour and the tutorials: every command of theirs is run, and what is shown is what it prints.

`EBBTIDE_UPDATE_DOCS=1 build/python -m pytest tests/python/test_docs.py` writes what is printed now into the pages.
"""

import importlib.util
import os
import re
import shlex
import subprocess
import sys

import pytest
from support.command_line import HAS_PHANTOM, PROGRAM

PAGES = ["tour.md", "tutorials/will-it-fit.md", "tutorials/make-it-fit.md", "tutorials/why-not.md", "tutorials/share-a-gpu.md"]
UPDATE = os.environ.get("EBBTIDE_UPDATE_DOCS") == "1"
FILE = re.compile(r"```python title=\"([\w.]+)\"\n(.*?)```", re.DOTALL)
CONSOLE = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.skipif(not HAS_PHANTOM, reason="the build has no phantom GPU")
@pytest.mark.parametrize("page", PAGES)
def test_commands_print_what_is_shown(page, checkout, tmp_path):
    path = checkout / "docs" / page
    text = path.read_text()
    for name, content in FILE.findall(text):
        (tmp_path / name).write_text(content)
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LC_ALL", "LC_CTYPE", "LANG", "NO_COLOR")}
    environment["PATH"] = f"{os.path.dirname(sys.executable)}:{environment['PATH']}"

    def printed(command):
        words = shlex.split(command, comments=True)
        program = {"ebbtide": PROGRAM}[words[0]]
        done = subprocess.run([program, *words[1:]], cwd=tmp_path, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        expected = int(re.search(r"# exit (\d+)", command).group(1)) if "# exit" in command else 0
        assert done.returncode == expected, (command, done.stderr)
        shown = done.stdout + done.stderr
        assert "Traceback" not in shown or "dryrun" in command, shown
        return without_place(shown.strip("\n") + "\n")

    def rerun(block):
        parts = []
        for command in re.findall(r"^\$ (.*)$", block.group(0), re.MULTILINE):
            parts.append(f"$ {command}\n{printed(command)}")
        return "\n".join(parts)

    now = CONSOLE.sub(rerun, text)
    if UPDATE:
        path.write_text(now)
        return
    for shown, printed_now in zip(CONSOLE.findall(text), CONSOLE.findall(now), strict=True):
        loose = re.search(r"^\$ ebbtide (plan|share) ", shown, re.MULTILINE)
        assert (without_figures(printed_now) if loose else printed_now) == (without_figures(shown) if loose else shown)


def without_figures(text):
    """Plans get better: of them only the words are compared, not the figures and the plot."""
    return [re.sub(r"[ \d.]+", " ", line) for line in text.splitlines() if not re.search("[▁▂▃▄▅▆▇█╵]", line) and not line.startswith("No plan can do")]


def without_place(text):
    """The traceback of the program itself is left out: its paths and PyTorch's advice are those of an installation."""
    return re.sub(r"Traceback \(most recent call last\):\n.*?^\S*Error: .*?\n(?=\n|\S)", "", text, flags=re.DOTALL | re.MULTILINE).lstrip("\n")


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("tutorials/")])
def test_python_runs(page, checkout, tmp_path):
    """The blocks of a page in one program, as a reader would paste them."""
    blocks = [block for block in PYTHON.findall((checkout / "docs" / page).read_text()) if not block.startswith("# with the package")]
    if not blocks:
        return
    (tmp_path / "use.py").write_text("\n".join(blocks))
    environment = {**os.environ, "EBBTIDE_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "use.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# Of Optuna what the page uses, where it is not installed: trials that take the largest and the smallest of everything in turn.
OPTUNA = """
class TrialPruned(Exception):
    pass


class Trial:
    def __init__(self, number):
        self.number = number

    def suggest_int(self, name, low, high, log=False):
        return (low, high)[self.number % 2]

    def suggest_categorical(self, name, choices):
        return choices[self.number % 2 - 1]


class Study:
    def optimize(self, objective, n_trials):
        self.pruned = []
        for number in range(n_trials):
            try:
                objective(Trial(number))
            except TrialPruned as reason:
                self.pruned.append(str(reason))


create_study = Study
"""


@pytest.mark.parametrize("package", ["accelerate", "optuna"])
def test_loops_of_trainers_run(package, checkout, tmp_path):
    """The blocks of trainers.md, each a program of its own."""
    [block] = [block for block in PYTHON.findall((checkout / "docs" / "trainers.md").read_text()) if f"import {package}" in block or f"from {package}" in block]
    if package == "optuna":
        if importlib.util.find_spec("optuna") is None:
            (tmp_path / "optuna.py").write_text(OPTUNA)
            block += 'assert len(study.pruned) == 2 and "needs" in study.pruned[0], study.pruned\n'
    else:
        pytest.importorskip(package)
        block += "for graph in ebbtide.compile.reports():\n    assert 0 < graph['peak_bytes'] <= graph['budget_bytes']\n"
    (tmp_path / "use.py").write_text(block)
    environment = {**os.environ, "EBBTIDE_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run([sys.executable, "use.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_links_lead_somewhere(checkout):
    for page in sorted((checkout / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_the_site_has_every_page(checkout):
    """What lies in docs/ and is not named in mkdocs.yml would be found by nobody."""
    named = set(re.findall(r"[\w./-]+\.md", (checkout / "mkdocs.yml").read_text())) - {"contributing.md", "changelog.md"}
    assert named == {str(page.relative_to(checkout / "docs")) for page in (checkout / "docs").rglob("*.md")}
