"""`ebbtide report`: a page of any result."""

import json
import re
import subprocess

import pytest
from support.command_line import PROGRAM


def run(*words, cwd=None):
    return subprocess.run([PROGRAM, *words], cwd=cwd, capture_output=True, text=True)


@pytest.mark.parametrize("words", [
    ["estimate", "resnet18", "--batch-size", "4", "--gpu", "rtx3060"], ["gpus"], ["fit", "resnet18", "--gpu", "t4"],
    ["plan", "mlp", "--batch-size", "4096", "--budget", "90%", "--no-bound"], ["inspect", "resnet18"],
], ids=lambda words: words[0])
def test_a_page_of_any_result(words, tmp_path):
    (tmp_path / "r.json").write_text(run(*words, "--json", "-q").stdout)
    done = run("report", "r.json", "-o", "r.html", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    page = (tmp_path / "r.html").read_text()
    head, shown = (json.loads(text) for text in re.findall(r'type="application/json">(.*?)</script>', page, re.DOTALL))
    assert head["command"] == "ebbtide report r.json" and head["version"] and re.fullmatch(r"\d{4}-\d\d-\d\d", head["date"])
    del shown["about"]
    assert shown == json.loads((tmp_path / "r.json").read_text())


@pytest.mark.parametrize("text, line", [
    ("{", "r.json: byte "), ("[]", "r.json: expected an object"), ('{"schema_version": 1}', 'r.json: expected "command"'),
    ('{"command": "plan", "schema_version": 9}', 'r.json: expected "schema_version" 1'), ("[" * 100_000, "r.json: "),
    ('{"command": "plan", "schema_version": 1, "a": ' + "[" * 40 + "]" * 40 + "}", "expected at most 32 levels"),
])
def test_bad_results_are_told(text, line, tmp_path):
    (tmp_path / "r.json").write_text(text)
    done = run("report", "r.json", "-o", "r.html", cwd=tmp_path)
    assert done.returncode == 2 and line in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "r.html").exists()


def test_bad_usage_is_told(tmp_path):
    (tmp_path / "r.json").write_text(run("gpus", "--json").stdout)
    for words, line in ((["r.json"], "expected -o FILE"), (["no.json", "-o", "r.html"], "no.json"), (["r.json", "-o", "r.pdf"], ".html"),
                        ([], "expected a RESULT.json")):
        done = run("report", *words, cwd=tmp_path)
        assert done.returncode == 2 and line in done.stderr
