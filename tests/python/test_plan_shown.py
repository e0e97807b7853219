"""What `ebbtide plan` and `ebbtide simulate` show beside the figures: time over budget, the iteration, a page, progress."""

import json
import re

import pytest
from support.browser import needs_chromium, rendered
from support.command_line import assert_refused, result_of, run, run_on_terminal
from support.plan_command import QUICK, RESNET, plan, timed_graph

# ---- Time over budget


@pytest.fixture(scope="module")
def curve(tmp_path_factory):
    page = tmp_path_factory.mktemp("pareto") / "plan.html"
    return plan(*RESNET, "--budget", "70%", "--pareto", "--compare", "-o", page, *QUICK), page


def test_pareto_goes_from_the_plain_peak_to_the_minimum(curve):
    result, _ = curve
    points = result["pareto"]
    budgets = [point["budget_bytes"] for point in points]
    assert 8 <= len(points) <= 15
    assert budgets == sorted(budgets, reverse=True) and len(set(budgets)) == len(budgets)
    assert budgets[0] == result["plain_peak_bytes"] and budgets[-1] == result["minimum_budget_bytes"]
    assert int(0.9 * budgets[0]) in budgets  # as --budget 90% means it
    for point in points:
        assert set(point) == {"budget_bytes", "feasible", "time_ns", "peak_bytes", "lower_bound_ns"}
        assert point["feasible"]
        assert point["peak_bytes"] <= point["budget_bytes"]
        assert result["plain_time_ns"] <= point["lower_bound_ns"] <= point["time_ns"]
    assert points[0]["time_ns"] == result["plain_time_ns"]


def test_pareto_never_rises_with_the_budget(curve):
    points = curve[0]["pareto"]
    for field in ("time_ns", "lower_bound_ns"):
        values = [point[field] for point in points]
        assert values == sorted(values), field


def test_the_budget_that_was_asked_for_is_a_point(curve):
    result, _ = curve
    point = next(point for point in result["pareto"] if point["budget_bytes"] == result["budget_bytes"])
    for field in ("time_ns", "peak_bytes", "lower_bound_ns"):
        assert point[field] == result[field], field


def test_pareto_by_hand(graph):
    # With 408 bytes nothing is given up; with 400 to 308, b (60) or a (100) is made again: one op of 10 us. What a
    # plan for less takes is no less than what one for more takes.
    result = plan(graph, "--pareto", "--no-swap")
    assert result["budget_bytes"] > 408  # that of the GPU
    times = {point["budget_bytes"]: point["time_ns"] for point in result["pareto"]}
    assert times[408] == 40_000
    assert max(times) == 408 and all(budget >= 248 for budget in times)
    assert all(time == 50_000 for budget, time in times.items() if 348 <= budget < 408)
    assert all(time == 60_000 for budget, time in times.items() if budget < 308)


def test_pareto_does_not_depend_on_threads_nor_need_a_bound(graph):
    one = plan(graph, "--pareto", "--threads", 1)
    assert one == plan(graph, "--pareto", "--threads", 3)
    without = plan(graph, "--pareto", "--no-bound")
    assert [p["time_ns"] for p in without["pareto"]] == [p["time_ns"] for p in one["pareto"]]
    assert {p["lower_bound_ns"] for p in without["pareto"]} == {without["plain_time_ns"]}
    assert without["gap"] is None


def test_pareto_of_a_policy_that_cannot(graph):
    result = plan(graph, "--pareto", "--policy", "none")
    feasible = [point["feasible"] for point in result["pareto"]]
    assert feasible[0] and not any(feasible[1:])
    assert all(point["time_ns"] is None for point in result["pareto"][1:])
    done = run("plan", graph, "--pareto", "--policy", "none")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("infeasible") == len(feasible) - 1


def test_pareto_of_a_budget_below_the_minimum(graph):
    result = plan(graph, "--pareto", "--budget", "200", code=1)
    assert not result["feasible"]
    assert all(point["feasible"] and point["budget_bytes"] > 200 for point in result["pareto"])


def test_pareto_as_text(graph):
    done = run("plan", graph, "--pareto", "--budget", "300")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    head = next(i for i, line in enumerate(lines) if line.split() == ["budget", "of", "plain", "iteration", "slowdown", "bound", "gap"])
    assert lines[head + 1].split()[:5] == ["408", "B", "100.0", "%", "40.0"]
    assert sum("the budget" in line for line in lines) == 1
    assert "iteration over budget" in lines
    assert "408 B (100.0 %)" in lines[-1]
    assert max(map(len, lines[1:])) <= 80


# ---- The iteration as a strip


def test_the_iteration_on_a_terminal():
    words = [*RESNET, "--budget", "80%", *QUICK]
    done = run("plan", *words)
    for part in ("compute", "one iteration, ", "╵forward", "╵backward"):
        assert part in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    plain = run("plan", *words, LC_ALL="C", COLUMNS="60").stdout
    assert plain.isascii() and "|forward" in plain
    assert max(map(len, plain.splitlines()[1:])) <= 60


def test_kept_is_what_backward_needs(graph):
    # a and b are saved for backward; p is a parameter, c comes and goes, the last is backward's own.
    assert plan(graph)["kept"] == {"storages": 2, "bytes": 160}
    tight = plan(graph, "--budget", "300", "--link", "1kB/s")
    assert tight["kept"]["bytes"] + tight["recomputed"]["bytes"] == 160
    assert tight["swapped"] == {"storages": 0, "bytes": 0}


def test_a_budget_above_the_plain_peak_is_said_to_fit(graph):
    text = run("plan", graph, "--budget", "408").stdout
    assert "It fits without a plan." in text and "swapped" not in text
    assert "fits without" not in run("plan", graph, "--budget", "407").stdout


# ---- Progress


def test_progress_on_a_terminal_is_erased():
    words = ["plan", *RESNET, "--budget", "80%", "--compare", "--evaluations", "40", "--no-bound"]
    shown = run_on_terminal(*words)
    assert re.search(r"\rsearching [━╌]+ +\d+ %", shown)
    assert "policy dtr " in shown
    before, after = shown.rsplit("\r", 1)
    assert set(before.rsplit("\r", 1)[1]) == {" "}  # the line that stood there is gone
    assert "iteration" in after and "searching" not in after
    assert "searching" not in run_on_terminal(*words, "-q")
    assert "\x1b" not in run_on_terminal(*words, NO_COLOR="1")
    assert run(*words).stderr == ""


# ---- Files


def test_a_file_that_cannot_be_written_is_noticed_first(tmp_path):
    """Before the model is looked at, so that no search is lost."""
    for verb in (["plan", "no-such-model"], ["simulate", "no-such-model", "--plan", "none.json"]):
        for name, what in (("no/such/plan.html", "no such folder"), ("closed.json", "expected a file, found a folder"),
                           ("plan.csv", "expected a name that ends in")):
            (tmp_path / "closed.json").mkdir(exist_ok=True)
            done = run(*verb, "-o", tmp_path / name)
            assert_refused(done, f"ebbtide {verb[0]}: -o {tmp_path / name}: ", what)
    assert [path.name for path in tmp_path.iterdir()] == ["closed.json"]
    other = run("inspect", "no-such-model", "-o", tmp_path / "no" / "r.json")
    assert_refused(other, "no such folder")


def test_a_page_of_an_infeasible_budget(graph, tmp_path):
    page, table, file = tmp_path / "p.html", tmp_path / "p.txt", tmp_path / "p.json"
    plan(graph, "--budget", "200", "-o", page, "-o", table, "-o", file, code=1)
    assert "No plan can do with less than 248 B" in page.read_text()
    assert "infeasible" in table.read_text()
    assert not file.exists()


@pytest.mark.parametrize("words, parts", [
    (["--budget", ""], ["--budget: expected a value, found nothing"]),
    (["--link", ""], ["--link: expected a value, found nothing"]),
    (["--link", "nanGB/s"], ["--link nanGB/s: expected bytes per second"]),
    (["--link", "infGB/s"], ["--link infGB/s: expected bytes per second"]),
    (["--budget", "nan"], ["--budget nan: expected a size such as 8GiB, or a share of the plain peak such as 60%"]),
    (["--budget", "inf%"], ["--budget inf%: expected a percentage", "above 0% and at most 1000%"]),
    (["--budget", "1001%"], ["--budget 1001%: expected a percentage"]),
    (["--budget", "50%%"], ["--budget 50%%: expected a percentage"]),
    (["--host-memory", "x"], ["--host-memory x: expected a size"]),
    (["--time-limit", "x"], ["--time-limit: expected a number, found x"]),
    (["--pareto=3"], ["--pareto: expected no value"]),
])
def test_bad_usage_is_noticed_before_the_model(words, parts):
    assert_refused(run("plan", "no-such-model", *words), "ebbtide plan: ", *parts)


def test_a_share_may_have_a_space(graph):
    assert plan(graph, "--budget", "75 %")["budget_bytes"] == 306


# ---- The page, in a browser


# Points at the middle of each stream and of the memory, zooms by dragging, and keeps what the page says.
SCRIPT = """
const chart = document.getElementById("chart"), said = [];
const send = (type, x, y) => {
  const box = chart.getBoundingClientRect();
  chart.dispatchEvent(new MouseEvent(type, {clientX: box.left + x, clientY: box.top + y, bubbles: true}));
};
const height = chart.getBoundingClientRect().height;
for (const up of [130, 92, 54, 250]) {
  for (let x = 90; x < 1200; x += 7) {
    send("mousemove", x, height - up);
    said.push([up, document.getElementById("tooltip").innerText]);
  }
}
send("mousedown", 300, 100); send("mousemove", 400, 100); send("mouseup", 400, 100);
const zoomed = chart.dataset.view;
document.getElementById("later").click();
const moved = chart.dataset.view;
send("dblclick", 300, 100);
const pre = document.createElement("pre");
pre.id = "said";
pre.textContent = JSON.stringify({said, zoomed, moved, whole: chart.dataset.view});
document.body.append(pre);
"""


@needs_chromium
def test_the_page_in_a_browser(curve, tmp_path):
    result, page = curve
    assert not re.search(r'(src|href)\s*=|@import|url\(|https?://', page.read_text())  # one file, no network
    dom = rendered(page, SCRIPT, tmp_path)
    told = re.search(r'<pre id="said">(.*?)</pre>', dom, re.DOTALL).group(1)
    told = json.loads(told.replace("&amp;", "&").replace("&gt;", ">").replace("&lt;", "<"))
    compute, memory = ([text for up, text in told["said"] if up == at] for at in (130, 250))
    assert any("convolution of " in text and "forward" in text for text in compute)
    assert any("backward" in text for text in compute)
    assert any("Activation" in text and "without a plan" in text for text in memory)
    if result["copied_out_bytes"] > 0:
        assert any("copy to host" in text for up, text in told["said"] if up == 92)
    time = result["time_ns"]
    zoomed, moved, whole = ([int(part) for part in told[key].split()] for key in ("zoomed", "moved", "whole"))
    assert whole == [0, time]
    assert 0 < zoomed[0] < zoomed[1] < time and 0.05 < (zoomed[1] - zoomed[0]) / time < 0.15
    assert moved[0] > zoomed[0] and abs((moved[1] - moved[0]) - (zoomed[1] - zoomed[0])) <= 2
    assert f"{result['peak_bytes'] / 2**20:.2f} MiB" in dom
    for section in ("over-time", "time", "trade-off", "compared"):
        assert not re.search(rf'id="{section}"[^>]*hidden', dom), section
    assert re.search(r'id="failures"[^>]*hidden', dom)
    assert len(re.findall("<circle", dom)) == len(result["pareto"])
    rows = {section: len(re.findall("<tr", re.search(rf'<tbody id="{section}">.*?</tbody>', dom, re.DOTALL).group(0)))
            for section in ("points", "policies", "parts")}
    assert rows == {"points": len(result["pareto"]), "policies": len(result["policies"]), "parts": 5}


@needs_chromium
def test_the_page_of_a_replay_shows_stalls(tmp_path):
    path, page = tmp_path / "plan.json", tmp_path / "replay.html"
    plan(*RESNET, "--budget", "60%", "--no-recompute", "-o", path, "-q", *QUICK)
    result = result_of("simulate", *RESNET, "--plan", path, "--link", "2GB/s", "-o", page)
    assert result["wait_for_memory_ns"] + result["wait_for_data_ns"] > 0
    dom = rendered(page, "", tmp_path)
    stalls = re.search(r'<tbody id="stalls">.*?</tbody>', dom, re.DOTALL).group(0)
    assert len(re.findall("<tr", stalls)) >= 3 and "MiB" in stalls
    assert "waiting for" in dom and "without a plan" in dom
    swapped = re.search(r'<tbody id="swapped">.*?</tbody>', dom, re.DOTALL).group(0)
    assert "conv" in swapped and "layer" in swapped
    assert re.search(r'id="trade-off"[^>]*hidden', dom) and re.search(r'id="compared"[^>]*hidden', dom)


@needs_chromium
def test_names_in_a_page_are_text(tmp_path):
    content = timed_graph()
    content["ops"][1]["layer"] = "</script><b>&amp;"
    path, page = tmp_path / "<i>step.json", tmp_path / "page.html"
    path.write_text(json.dumps(content))
    plan(path, "--budget", "300", "--link", "1kB/s", "-o", page)
    dom = rendered(page, "", tmp_path)
    assert "&lt;i&gt;step.json" in dom and "<i>step" not in dom
    assert "relu of &lt;/script&gt;&lt;b&gt;&amp;amp;" in dom


def test_simulate_writes_what_its_names_say(tmp_path):
    path = tmp_path / "plan.json"
    plan(*RESNET, "--budget", "80%", "-o", path, "-q", *QUICK)
    files = [tmp_path / name for name in ("r.html", "r.trace.json", "r.json", "r.txt")]
    result = result_of("simulate", *RESNET, "--plan", path, *(word for file in files for word in ("-o", file)))
    assert json.loads((tmp_path / "r.json").read_text()) == result
    assert json.loads((tmp_path / "r.trace.json").read_text())["traceEvents"]
    assert "valid: " in (tmp_path / "r.txt").read_text() and "compute" in (tmp_path / "r.txt").read_text()
