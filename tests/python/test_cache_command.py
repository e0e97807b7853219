"""`ebbtide cache`: what is kept, where, and its removal."""

import json
import os
import pathlib
import re
import subprocess

import pytest
from support.command_line import PROGRAM

from ebbtide import files


@pytest.fixture
def cache(tmp_path):
    folder = tmp_path / "cache"
    for name, size in (("plans/a.json", 100), ("plans/b.json", 50), ("torch/kernels.so", 1000), ("env-1/bin/python", 7)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * size)
    return folder


def run(folder, *words, **variables):
    environment = {**os.environ, "EBBTIDE_CACHE": str(folder), **variables}
    return subprocess.run([PROGRAM, "cache", *words], env=environment, capture_output=True, text=True)


def test_it_lists_what_is_kept(cache):
    result = json.loads(run(cache, "--json").stdout)
    assert result["folder"] == str(cache)
    assert {kind["name"]: (kind["files"], kind["bytes"]) for kind in result["kinds"]} == {"env-1": (1, 7), "plans": (2, 150), "torch": (1, 1000)}
    assert result["bytes"] == 1157
    text = run(cache).stdout
    assert str(cache) in text and "plans" in text


def test_all_clears_what_is_made_anew_and_no_environment(cache):
    result = json.loads(run(cache, "--clear", "all", "--json").stdout)
    assert [kind["name"] for kind in result["kinds"] if kind["cleared"]] == ["plans", "torch"]
    assert result["bytes"] == 7 and sorted(path.name for path in cache.iterdir()) == ["env-1"]
    assert run(cache, "--clear", "env-1").returncode == 0 and not list(cache.iterdir())
    assert "nothing is kept" in run(cache).stdout


def test_files_beside_a_folder_are_shown_and_go_with_it(cache):
    for name in ("env-1.lock", "env-1.log", "other.log"):
        (cache / name).write_bytes(b"12")
    kinds = {kind["name"]: (kind["files"], kind["bytes"]) for kind in json.loads(run(cache, "--json").stdout)["kinds"]}
    assert kinds["env-1"] == (3, 7 + 2 + 2) and kinds["other.log"] == (1, 2)
    assert run(cache, "--clear", "env-1", "--clear", "other.log").returncode == 0
    assert sorted(path.name for path in cache.iterdir()) == ["plans", "torch"]


def test_one_kind(cache):
    assert run(cache, "--clear", "plans", "-q").returncode == 0
    assert sorted(path.name for path in cache.iterdir()) == ["env-1", "torch"]


def test_links_are_not_followed(cache, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("kept")
    (cache / "linked").symlink_to(tmp_path / "other")
    (cache / "plans" / "inner").symlink_to(tmp_path / "other")
    result = json.loads(run(cache, "--clear", "all", "--json").stdout)
    assert "linked" not in [kind["name"] for kind in result["kinds"]]
    assert (tmp_path / "other" / "file").read_text() == "kept"


def test_what_is_not_there(cache):
    refused = run(cache, "--clear", "plan")
    assert refused.returncode == 2 and "--clear: expected all, " in refused.stderr and "plans" in refused.stderr and refused.stderr.count("\n") == 1
    assert "nothing is kept" in run(cache / "none").stdout


@pytest.mark.parametrize("variables", [
    {"EBBTIDE_CACHE": "/a/b"}, {"EBBTIDE_CACHE": "", "XDG_CACHE_HOME": "/x"}, {"EBBTIDE_CACHE": "", "XDG_CACHE_HOME": "relative", "HOME": "/home/someone"},
])
def test_the_program_and_the_package_name_one_folder(variables, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = json.loads(subprocess.run([PROGRAM, "cache", "--json"], capture_output=True, text=True, check=True).stdout)["folder"]
    assert found == str(files.cache_folder())


def test_every_folder_that_the_package_makes_is_known(tmp_path):
    package = pathlib.Path(files.__file__).parent
    made = {name for path in package.rglob("*.py")
            for name in re.findall(r"""(?:cache_folder\(\) / |kept_library\()"([\w-]+)\"""", path.read_text(encoding="utf-8"))}
    for name in made:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
    assert len(made) > 3 and json.loads(run(tmp_path, "--clear", "all", "--json").stdout)["bytes"] == 0
    assert not list(tmp_path.iterdir())
