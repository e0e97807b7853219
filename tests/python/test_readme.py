"""The README shows what the program prints."""

import os
import re
import shlex
import subprocess
import sys

from support.command_line import PROGRAM


def test_the_example_prints_what_the_readme_shows(checkout, tmp_path):
    readme = (checkout / "README.md").read_text()
    script = re.search(r"`train\.py`:\n\n```python\n(.*?)```", readme, re.DOTALL).group(1)
    words, shown = re.search(r"```\n\$ ebbtide (inspect train.*?)\n(.*?)```", readme, re.DOTALL).groups()
    (tmp_path / "train.py").write_text(script)
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LC_ALL", "LC_CTYPE", "LANG")}
    done = subprocess.run([PROGRAM, *words.split()], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == shown


def test_the_python_of_the_readme_runs(checkout, tmp_path):
    """All of its blocks in one program, as a reader would paste them, on a smaller model."""
    first, *others = re.findall(r"```python\n(.*?)```", (checkout / "README.md").read_text(), re.DOTALL)
    (tmp_path / "train.py").write_text(first.replace("1024", "128").replace("4096", "2048"))
    (tmp_path / "use.py").write_text("\n".join(others))
    environment = {**os.environ, "EBBTIDE_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "use.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "budget" in done.stdout


def commands_of(readme):
    """What stands behind a $ or, in the first block, is told to be typed: `ebbtide ...` without its remark."""
    return [line.partition("  #")[0].rstrip() for line in re.findall(r"^\$ (ebbtide .*)$", readme, re.MULTILINE)]


# What a reader has of his own: such lines are read and refused for the file that is missing, not for a flag.
OF_THE_READER = ("model.onnx", "saved_model/", "config.json", "snapshot.pickle", "jobs.csv")
# Minutes of searching, of training or of many processes: other tests run the like of them.
LONG = ("--compare", "--pareto", "--max-batch", "ebbtide train", "ebbtide simulate", "torchrun", "--world-size", "--gpu-share")


def test_the_commands_of_the_readme_run(checkout, tmp_path):
    readme = (checkout / "README.md").read_text()
    script = re.search(r"`train\.py`:\n\n```python\n(.*?)```", readme, re.DOTALL).group(1)
    (tmp_path / "train.py").write_text(script.replace("1024", "128"))
    commands = commands_of(readme)
    assert len(commands) > 20
    environment = {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
    for command in commands:
        words = shlex.split(command)[1:]
        missing = [word for word in words if word in OF_THE_READER]
        if any(long in command for long in LONG):
            words = [words[0], "--help"]
            shown = subprocess.run([PROGRAM, *words], capture_output=True, text=True).stdout
            flags = re.findall(r"(--[a-z-]+)", command.partition(" -- ")[0])
            assert all(flag in shown for flag in flags), command
            continue
        done = subprocess.run([PROGRAM, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
        if missing:
            assert done.returncode == 2 and missing[0].rstrip("/") in done.stderr and "flag" not in done.stderr, (command, done.stderr)
        else:
            assert done.returncode == 0, (command, done.stderr)


def test_links_lead_somewhere(checkout):
    for page in (checkout / "README.md", *sorted((checkout / "docs").glob("*.md"))):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
