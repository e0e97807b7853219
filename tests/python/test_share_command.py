"""`ebbtide share` as a user runs it: what fits, how fast, the largest common batch, a page, refusals."""

import json
import re

import pytest
from support.browser import needs_chromium, rendered
from support.command_line import assert_refused, run, run_on_terminal
from support.plan_command import timed_graph

V100 = ("--gpu", "v100-16gb")
FIELDS = {"fits": bool, "peak_bytes": int, "time_ns": int, "exclusive_time_ns": int, "jobs": list}


def share(*words, code=0):
    done = run("share", *words, "--json")
    assert (done.returncode, done.stderr) == (code, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    page = tmp_path_factory.mktemp("share") / "share.html"
    return share("resnet50:128", "resnet18:256", *V100, "--compare", "-o", page), page


def test_fields_of_a_mix(pair):
    result, _ = pair
    for field, kind in FIELDS.items():
        assert type(result[field]) is kind, field
    assert (result["schema_version"], result["command"]) == (1, "share")
    assert [(job["model"], job["batch"]) for job in result["jobs"]] == [("resnet50", 128), ("resnet18", 256)]
    for job in result["jobs"]:
        assert job["iterations_per_second"] == pytest.approx(1e9 / result["time_ns"], rel=0.02)


def test_a_mix_keeps_its_capacity_and_is_no_slower(pair):
    result, _ = pair
    assert result["fits"] and result["peak_bytes"] <= result["capacity_bytes"]
    assert result["exclusive_time_ns"] == sum(job["solo_time_ns"] for job in result["jobs"])
    assert result["time_ns"] <= result["exclusive_time_ns"]
    assert 0 < result["overlapped_group_runs"] <= result["group_runs"]


def test_groups_cover_the_step_and_cross_what_lives(pair):
    for job in pair[0]["jobs"]:
        groups = job["groups"]
        assert len(groups) == 16 and groups[0]["begin"] == 0
        assert all(a["end"] == b["begin"] for a, b in zip(groups, groups[1:]))
        assert max(group["peak_bytes"] for group in groups) == job["height_bytes"]
        assert all(group["crossing_bytes"] <= group["after_bytes"] <= group["peak_bytes"] for group in groups)
        assert groups[-1]["after_bytes"] == 0
        assert sum(group["time_ns"] for group in groups) == job["solo_time_ns"]


def test_baselines_are_run_in_the_same_simulator(pair):
    result, _ = pair
    ways = {way["name"]: way for way in result["baselines"]}
    assert list(ways) == ["exclusive", "time-slicing", "mps", "paging", "zico", "wavelet", "salus"]
    assert ways["exclusive"]["time_ns"] == result["exclusive_time_ns"]
    assert ways["time-slicing"]["time_ns"] >= result["exclusive_time_ns"] * 0.999
    assert not ways["mps"]["fits"] and ways["mps"]["memory_bytes"] > 15 * 2**30
    assert ways["paging"]["time_ns"] > result["time_ns"]


def test_small_jobs_get_a_lane_each():
    result = share("resnet18:8", "resnet18:8", "resnet18:8", *V100)
    assert sorted(job["lane"] for job in result["jobs"]) == [0, 1, 2]
    assert result["overlapped_group_runs"] == result["group_runs"]
    assert result["speedup"] > 1.05


def test_what_does_not_fit_is_exit_1_and_a_plan_makes_it_fit():
    words = ("resnet50:200", "resnet50:200", *V100)
    result = share(*words, "--no-plan", code=1)
    assert not result["fits"] and result["time_ns"] is None and "there are 15.48 GiB" in result["reason"]
    planned = share(*words)
    assert planned["fits"] and all(job["planned"] for job in planned["jobs"])
    assert planned["peak_bytes"] <= planned["capacity_bytes"]
    text = run("share", *words, "--no-plan")
    assert text.returncode == 1 and "does not fit: " in text.stdout


def test_the_largest_common_batch():
    result = share("resnet18", "resnet18", "--capacity", "2GiB", *V100, "--max-batch", "--no-plan")
    assert result["fits"]
    first, second = result["jobs"]
    assert first["batch"] == second["batch"] <= first["solo_batch"]
    assert result["batch_share"] == first["batch"] / first["solo_batch"]
    # A batch takes whole samples, so the ceiling may be passed by less than one.
    assert 0.9 * result["batch_share_ceiling"] <= result["batch_share"] <= result["batch_share_ceiling"] + 1 / first["solo_batch"]
    assert result["time_ns"] <= result["exclusive_time_ns"] and result["overlapped_group_runs"] > 0
    planned = share("resnet18", "resnet18", "--capacity", "2GiB", *V100, "--max-batch")
    assert planned["batch_share"] >= result["batch_share"] == planned["batch_share_without_plans"]


def test_weights_are_iterations():
    result = share("resnet18:8", "resnet18:8", *V100, "--weights", "3,1", "--capacity", "600MiB")
    fast, slow = (job["iterations_per_second"] for job in result["jobs"])
    assert fast / slow == pytest.approx(3, rel=0.15)


def test_a_graph_file_is_a_model(tmp_path):
    # During c everything lives: 400 and 8 of workspace, of which the parameter (40) and what is kept (4) are state.
    path = tmp_path / "step.json"
    path.write_text(json.dumps(timed_graph()))
    result = share(path, path, "--groups", "4")
    assert [job["state_bytes"] for job in result["jobs"]] == [44, 44]
    assert result["jobs"][0]["live_peak_bytes"] == 100 + 60 + 200 + 8
    assert result["exclusive_time_ns"] == 80_000
    assert_refused(run("share", f"{path}:64", path), "step.json", "captured at")
    assert_refused(run("share", path, "--max-batch"), "step.json", "captured at")


def test_a_step_without_times(tmp_path):
    content = timed_graph()
    for op in content["ops"]:
        del op["time_ns"]
    path = tmp_path / "step.json"
    path.write_text(json.dumps(content))
    assert share(path, path)["fits"]


def test_same_input_same_output():
    words = ("resnet50:220", "resnet18:64", *V100)
    assert share(*words, "--threads", "1") == share(*words, "--threads", "2")


@pytest.mark.parametrize("words, parts", [
    ((), ["expected MODELs"]),
    (("resnet50:0",), ["resnet50:0", "at least 1"]),
    (("resnet5",), ["resnet5", "did you mean"]),
    (("resnet50", "vgg16", "--weights", "1"), ["--weights 1", "2 numbers"]),
    (("resnet50", "vgg16", "--weights", "1,0"), ["--weights 1,0", "from 1"]),
    (("resnet50", "--capacity", "many"), ["--capacity: 'many'", "a size"]),
    (("resnet50", "--groups", "1000"), ["--groups", "1 to 256"]),
    (("resnet50", "-o", "x.png"), ["x.png"]),
    (tuple(["resnet18"] * 17), ["at most 16"]),
    (("resnet18", "--script", "a.py:f"), ["either MODELs or --script"]),
    (("resnet18", "--steps", "3"), ["--steps", "without --script"]),
    (("--script", "a.py:f"), ["--capacity"]),
    (("--script", "a.py", "--capacity", "1GiB"), ["a.py", "no such file"]),
    (("--script", "a.py:f", "--capacity", "1GiB", "--compare"), ["--compare", "of no use"]),
])
def test_refusals(words, parts):
    assert_refused(run("share", *words), *parts)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_text_keeps_to_the_terminal(width):
    shown = run_on_terminal("share", "resnet18:64", "resnet18:64", "--compare", *V100, width=width)
    lines = re.sub(r"\x1b\[[0-9;]*[mK]", "", shown.split("\r")[-1]).split("\n")
    assert any("memory of the lanes" in line for line in lines)
    assert max(map(len, lines)) <= width


def test_real_programs(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "jobs.py"
    script.write_text("from torch import nn, optim, randn\n"
                      "def small():\n"
                      "    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))\n"
                      "    return model, nn.functional.mse_loss, optim.SGD(model.parameters(), 0.1), (randn(16, 64), randn(16, 8))\n")
    words = ("share", "--script", f"{script}:small", "--script", f"{script}:small", "--steps", "3", "--threads", "1", "-q", "--json")
    done = run(*words, "--capacity", "1MiB")
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)["jobs"]
    assert first["losses"] == second["losses"] and len(first["losses"]) == 3
    assert run(*words, "--capacity", "4KiB").returncode == 1


SCRIPT = """
const chart = document.getElementById("chart"), said = [], box = chart.getBoundingClientRect();
for (const up of [60, 95, 300]) {
  for (let x = 100; x < 1200; x += 11) {
    chart.dispatchEvent(new MouseEvent("mousemove", {clientX: box.left + x, clientY: box.bottom - up, bubbles: true}));
    said.push(document.getElementById("tooltip").innerText);
  }
}
const out = document.createElement("pre");
out.id = "said"; out.textContent = JSON.stringify(said); document.body.append(out);
"""


@needs_chromium
def test_the_page_in_a_browser(pair, tmp_path):
    result, page = pair
    assert not re.search(r'(src|href)\s*=|@import|url\(|https?://', page.read_text())
    dom = rendered(page, SCRIPT, tmp_path)
    told = re.search(r'<pre id="said">(.*?)</pre>', dom, re.DOTALL).group(1)
    assert "of state" in told and "addresses held" in told
    assert re.search(r"group \d+\s*\W+n?(forward|backward) of resnet50:128", told)
    assert f"{result['peak_bytes'] / 2**30:.2f} GiB" in dom
    assert len(re.findall("<tr", re.search(r'<tbody id="baselines">.*?</tbody>', dom, re.DOTALL).group(0))) == 8
    assert len(re.findall('class="cut"', dom)) == 2
    assert re.search(r'id="failures"[^>]*hidden', dom)


@needs_chromium
def test_the_page_of_what_does_not_fit(tmp_path):
    page = tmp_path / "no.html"
    share("resnet50:400", "resnet50:400", *V100, "--no-plan", "-o", page, code=1)
    dom = rendered(page, "", tmp_path)
    assert not re.search(r'id="failures"[^>]*hidden', dom) and "Does not fit" in dom
