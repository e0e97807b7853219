"""Completion in the shells themselves, one text for help, manual pages and completion."""

import re

import pytest
from support.command_line import assert_refused, run
from support.shells import SHELLS, is_installed, offered

shells = pytest.mark.parametrize("shell", [pytest.param(name, marks=pytest.mark.skipif(not is_installed(name), reason=f"no {name}")) for name in SHELLS])


@pytest.fixture(scope="module")
def scripts():
    return {shell: run("completion", shell).stdout for shell in SHELLS}


@pytest.fixture
def completed(scripts, tmp_path):
    (tmp_path / "step.json").touch()
    (tmp_path / "train.py").touch()
    return lambda shell, line: offered(shell, scripts[shell], line, tmp_path)


def verbs():
    return re.findall(r"^  (\w+)  +\w", run("--help").stdout.partition("General:")[0], re.MULTILINE)


def flags_of(verb):
    return set(re.findall(r"--[a-z][a-z-]+", run("help", verb).stdout.partition("\n\n")[2]))


@shells
@pytest.mark.parametrize(("line", "words"), [
    ("ebbtide est", ["estimate"]),
    ("ebbtide estimate --batch", ["--batch-size"]),
    ("ebbtide estimate --gpu a100", ["a100-40gb", "a100-80gb"]),
    ("ebbtide plan resnet15", ["resnet152"]),
    ("ebbtide plan resnet50 --policy hom", ["home"]),
    ("ebbtide estimate resnet50 --framework pytorch-2.1", [f"pytorch-2.{n}" for n in range(10, 16)]),
    ("ebbtide estimate config.json --quantize n", ["nf4"]),
    ("ebbtide capture train.py:step --kernels ind", ["inductor"]),
    ("ebbtide cache --clear pl", ["plans"]),
    ("ebbtide help insp", ["inspect"]),
    ("ebbtide completion z", ["zsh"]),
    ("ebbtide report st", ["step.json"]),
    ("ebbtide explain st", ["step.json"]),
    ("ebbtide estimate --gpu step", ["step.json"]),
    ("ebbtide estimate resnet50 --output st", ["step.json"]),
    ("ebbtide dryrun --gpu rtx409", ["rtx4090"]),
    ("ebbtide models st", []),
    ("ebbtide estimate resnet50 --batch-size ", []),
])
def test_words_are_offered(shell, line, words, completed):
    assert completed(shell, line) == words


@shells
def test_verbs_are_offered_first_and_never_again(shell, completed):
    assert set(verbs()) <= set(completed(shell, "ebbtide "))
    assert "estimate" not in completed(shell, "ebbtide estimate es")
    assert "--gpu" not in completed(shell, "ebbtide help estimate --g")  # of help, not of estimate


@shells
def test_every_flag_is_offered(shell, completed):
    for verb in ("estimate", "plan", "dryrun"):
        assert flags_of(verb) - {"--help"} <= set(completed(shell, f"ebbtide {verb} --")), verb


@shells
@pytest.mark.parametrize("verb", ["dryrun", "run"])
def test_behind_the_dashes_is_the_program(shell, verb, completed):
    assert "env" in completed(shell, f"ebbtide {verb} -- en")
    assert completed(shell, f"ebbtide {verb} --json -- cat trai") == ["train.py"]
    assert "--gpu" not in completed(shell, f"ebbtide {verb} -- cat --g")


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_have_every_flag(shell, scripts):
    for verb in verbs():
        assert verb in scripts[shell]
        for flag in flags_of(verb):
            assert flag in scripts[shell] or f"-l {flag[2:]}" in scripts[shell], (verb, flag)
    assert_refused(run("completion", "tcsh"), "expected a SHELL, bash, zsh or fish; found tcsh")


def test_manual_pages_have_every_flag():
    for verb in verbs():
        page = run("help", "--man", verb).stdout
        assert page.startswith(f".TH ebbtide\\-{verb} 1 ")
        assert flags_of(verb) <= set(re.findall(r"--[a-z][a-z-]+", page.replace("\\-", "-"))), verb
    assert ".SH VERBS" in run("help", "--man").stdout
