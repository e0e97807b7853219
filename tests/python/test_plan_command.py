"""`ebbtide plan` and `ebbtide simulate` as a user runs them: budgets, plans as files, refusals."""

import json
import re

import pytest
from support.command_line import assert_refused, result_of, run
from support.plan_command import QUICK, RESNET, plan, timed_graph

FIELDS = {
    "feasible": bool, "policy": str, "budget_bytes": int, "peak_bytes": int, "time_ns": int, "plain_time_ns": int,
    "plain_peak_bytes": int, "lower_bound_ns": int, "minimum_budget_bytes": int, "floor_bytes": int, "stopped_early": bool,
}


# ---- Plans


def test_fields_of_a_plan():
    result = plan(*RESNET, "--budget", "90%", *QUICK)
    for field, kind in FIELDS.items():
        assert type(result[field]) is kind, field
    assert (result["schema_version"], result["command"], result["model"]) == (1, "plan", "resnet18")
    assert result["feasible"] and result["policy"] == "home"
    assert result["budget_bytes"] == int(0.9 * result["plain_peak_bytes"])
    assert result["floor_bytes"] <= result["minimum_budget_bytes"] <= result["peak_bytes"] <= result["budget_bytes"]
    assert result["plain_time_ns"] <= result["lower_bound_ns"] <= result["time_ns"]
    assert not result["stopped_early"]


def test_a_budget_that_is_enough_costs_nothing():
    result = plan(*RESNET, "--budget", "110%", *QUICK)
    assert result["time_ns"] == result["plain_time_ns"]
    assert result["peak_bytes"] <= result["plain_peak_bytes"] * 1.01


def test_by_hand(graph):
    # 400 bytes are 40 + 100 + 60 + 200 and 8 of workspace.
    whole = plan(graph)
    assert (whole["plain_peak_bytes"], whole["plain_time_ns"], whole["time_ns"]) == (408, 40_000, 40_000)
    assert whole["floor_bytes"] == 248
    # a and b have to leave; the link is slow, so that both are made again: two ops of 10 us.
    tight = plan(graph, "--budget", "300", "--link", "1kB/s")
    assert tight["peak_bytes"] <= 300
    assert tight["time_ns"] == 40_000 + 20_000
    # A fast link hides what it can; no recomputation then.
    swapped = plan(graph, "--budget", "300", "--link", "1000GB/s", "--no-recompute")
    assert swapped["peak_bytes"] <= 300
    assert 40_000 <= swapped["time_ns"] < 60_000 + 4 * 20_000
    assert swapped["recompute_ns"] == 0


def test_compare_runs_every_policy():
    result = plan(*RESNET, "--budget", "80%", "--compare", *QUICK)
    names = [entry["policy"] for entry in result["policies"]]
    assert len(names) == len(set(names))
    assert set(names) >= {"home", "none", "vdnn-all", "vdnn-conv", "vdnn-dyn", "superneurons", "capuchin", "checkpoint-sqrt", "dtr"}
    for entry in result["policies"]:
        assert set(entry) >= {"policy", "feasible", "time_ns", "peak_bytes"}
        if not entry["feasible"]:
            assert entry["time_ns"] is None and entry["peak_bytes"] is None
            continue
        assert entry["peak_bytes"] <= result["budget_bytes"]
        assert entry["time_ns"] >= result["lower_bound_ns"]
        assert result["time_ns"] <= entry["time_ns"], entry["policy"]
    assert not next(entry for entry in result["policies"] if entry["policy"] == "none")["feasible"]


def test_no_swap_and_no_recompute():
    assert plan(*RESNET, "--budget", "85%", "--no-swap", *QUICK)["copied_in_bytes"] == 0
    assert plan(*RESNET, "--budget", "85%", "--no-recompute", *QUICK)["recompute_ns"] == 0


def test_host_memory_is_a_limit():
    result = plan(*RESNET, "--budget", "85%", "--no-recompute", *QUICK)
    assert result["host_peak_bytes"] > 0
    less = result["host_peak_bytes"] // 2
    done = run("plan", *RESNET, "--budget", "85%", "--no-recompute", "--host-memory", less, *QUICK, "--json")
    limited = json.loads(done.stdout)
    assert not limited["feasible"] or limited["host_peak_bytes"] <= less


def test_the_same_at_any_number_of_threads(tmp_path):
    plans = []
    for threads in (1, 2, 4):
        path = tmp_path / f"{threads}.json"
        plan(*RESNET, "--budget", "80%", "-o", path, "--threads", threads, "-q", *QUICK)
        plans.append(path.read_bytes())
    assert plans[0] == plans[1] == plans[2]


def test_a_time_limit_is_said():
    result = plan(*RESNET, "--budget", "80%", "--time-limit", "0.001", "--evaluations", "100000000")
    assert result["stopped_early"]


# ---- Infeasible


def test_infeasible_says_what_would_work(graph):
    result = plan(graph, "--budget", "200", code=1)
    assert not result["feasible"]
    assert result["time_ns"] is None and result["peak_bytes"] is None
    assert result["floor_bytes"] == 248 <= result["minimum_budget_bytes"]
    assert plan(graph, "--budget", result["minimum_budget_bytes"])["feasible"]
    done = run("plan", graph, "--budget", "200")
    assert (done.returncode, done.stderr) == (1, "")
    assert "infeasible" in done.stdout and "248 B" in done.stdout


def test_the_minimum_is_feasible():
    for more in ((), ("--no-swap",)):
        result = plan(*RESNET, "--budget", "1MiB", *more, *QUICK, code=1)
        assert not result["feasible"]
        assert result["floor_bytes"] <= result["minimum_budget_bytes"] < result["plain_peak_bytes"]
        again = plan(*RESNET, "--budget", result["minimum_budget_bytes"], *more, *QUICK)
        assert again["feasible"] and again["peak_bytes"] <= result["minimum_budget_bytes"]


def test_the_minimum_does_not_depend_on_the_budget():
    results = [plan(*RESNET, "--budget", budget, *QUICK, code=code) for budget, code in (("1MiB", 1), ("90%", 0))]
    [smallest] = {result["minimum_budget_bytes"] for result in results}
    below = plan(*RESNET, "--budget", smallest - 1, *QUICK, code=1)
    assert below["minimum_budget_bytes"] == smallest
    curve = plan(*RESNET, "--budget", smallest, "--pareto", *QUICK)
    assert curve["minimum_budget_bytes"] == smallest
    points = sorted(curve["pareto"], key=lambda point: point["budget_bytes"])
    assert points[0]["budget_bytes"] == smallest and all(point["time_ns"] for point in points)
    times = [point["time_ns"] for point in points]
    assert times == sorted(times, reverse=True)


def test_a_residual_network_without_copies():
    """Its additions in place need what was made after their first operand, which once ended the program."""
    result = plan("resnet50", "--batch-size", "2", "--gpu", "v100-16gb", "--no-swap", "--budget", "1MiB", *QUICK, code=1)
    assert result["floor_bytes"] <= result["minimum_budget_bytes"] < result["plain_peak_bytes"]


def test_infeasible_writes_no_plan(graph, tmp_path):
    plan(graph, "--budget", "200", "-o", tmp_path / "plan.json", code=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step.json"]


# ---- simulate


@pytest.fixture
def resnet_plan(tmp_path):
    path = tmp_path / "plan.json"
    return path, plan(*RESNET, "--budget", "80%", "-o", path, "-q", *QUICK)


def test_simulate_gives_what_plan_said(resnet_plan):
    path, planned = resnet_plan
    result = result_of("simulate", *RESNET, "--plan", path)
    assert result["valid"] is True
    for field in ("time_ns", "peak_bytes", "budget_bytes", "recompute_ns", "copied_in_bytes", "host_peak_bytes"):
        assert result[field] == planned[field], field
    done = run("simulate", *RESNET, "--plan", path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "valid" in done.stdout


def test_simulate_on_another_link(resnet_plan):
    path, planned = resnet_plan
    slow = result_of("simulate", *RESNET, "--plan", path, "--link", "1MB/s")
    assert slow["peak_bytes"] == planned["peak_bytes"]
    assert slow["time_ns"] >= planned["time_ns"]


def test_a_plan_is_readable(resnet_plan):
    path, planned = resnet_plan
    content = json.loads(path.read_text())
    assert (content["format"], content["version"], content["policy"]) == ("ebbtide.plan", 1, "home")
    assert content["predicted"]["time_ns"] == planned["time_ns"]
    assert len(content["columns"]) == len(content["stays"][0])


def test_a_plan_for_another_graph_is_refused(resnet_plan, graph):
    path, _ = resnet_plan
    assert_refused(run("simulate", graph, "--plan", path), f"ebbtide simulate: {path}: ", "for resnet18", "not for this graph")
    other_batch = run("simulate", "resnet18", "--batch-size", "17", "--image-size", "128", "--plan", path)
    assert_refused(other_batch, f"ebbtide simulate: {path}: ", "not for this graph")


def test_an_edited_plan_is_refused(resnet_plan):
    path, planned = resnet_plan
    text = path.read_text()
    path.write_text(text.replace(f'"budget_bytes": {planned["budget_bytes"]}', f'"budget_bytes": {planned["budget_bytes"] + 1}'))
    assert_refused(run("simulate", *RESNET, "--plan", path), f"ebbtide simulate: {path}: checksum")


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.99])
def test_a_truncated_plan_is_refused(resnet_plan, share):
    path, _ = resnet_plan
    text = path.read_text()
    path.write_text(text[:int(share * len(text))])
    assert_refused(run("simulate", *RESNET, "--plan", path), f"ebbtide simulate: {path}: ")


def test_what_is_no_plan_is_refused(graph, tmp_path):
    assert_refused(run("simulate", graph, "--plan", graph), f"ebbtide simulate: {graph}: ")
    assert_refused(run("simulate", graph), "ebbtide simulate: expected --plan FILE")
    assert_refused(run("simulate", graph, "--plan", tmp_path / "none.json"), "none.json: ")


# ---- Refusals


@pytest.mark.parametrize("words, parts", [
    (["plan"], ["ebbtide plan: expected a MODEL"]),
    (["plan", "mlp", "--budget", "8GBs"], ["ebbtide plan: --budget 8GBs: ", "expected a size such as 8GiB"]),
    (["plan", "mlp", "--budget", "0"], ["--budget 0: expected more than nothing"]),
    (["plan", "mlp", "--budget", "0%"], ["--budget 0%: expected a percentage"]),
    (["plan", "mlp", "--budget", "-5%"], ["--budget -5%: expected a percentage"]),
    (["plan", "mlp", "--budget", "nan%"], ["--budget nan%: expected a percentage"]),
    (["plan", "mlp", "--budget", "%"], ["--budget %: expected a percentage"]),
    (["plan", "mlp", "--budget", "9" * 30], ["--budget 999"]),
    (["plan", "mlp", "--link", "0GB/s"], ["--link 0GB/s: expected bytes per second, as 12GB/s"]),
    (["plan", "mlp", "--link", "12"], ["--link 12: expected bytes per second, as 12GB/s"]),
    (["plan", "mlp", "--link", "-1GB/s"], ["--link -1GB/s: expected bytes per second"]),
    (["plan", "mlp", "--host-memory", "-1"], ["--host-memory -1: "]),
    (["plan", "mlp", "--policy", "hom"], ["no policy is called hom; did you mean home?"]),
    (["plan", "mlp", "--policy", "capuchins"], ["no policy is called capuchins; did you mean capuchin?"]),
    (["plan", "mlp", "--gpu", "a1000"], ["a1000"]),
    (["plan", "mlp", "--evaluations", "0"], ["--evaluations: expected a positive whole number, found 0"]),
    (["plan", "mlp", "--time-limit", "-1"], ["--time-limit: expected seconds", "found -1"]),
    (["plan", "mlp", "--time-limit", "nan"], ["--time-limit: expected seconds", "found nan"]),
    (["plan", "mlp", "-o", "plan.csv"], ["-o plan.csv: expected a name that ends in .json"]),
    (["plan", "mlp", "-o", "no/such/folder/plan.json"], ["no/such/folder/plan.json: "]),
])
def test_bad_usage(words, parts):
    assert_refused(run(*words, *(QUICK if "--evaluations" not in words and len(words) > 1 else ())), *parts)


def test_nothing_is_half_written(tmp_path, graph):
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "plan.json").mkdir()  # a folder of that name: it cannot be replaced by a file
    assert_refused(run("plan", graph, "-o", folder / "plan.json"), "plan.json: ")
    assert [path.name for path in folder.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("time", [-1, float("nan"), float("inf"), 1e300, "10", None])
def test_times_that_are_none(tmp_path, time):
    content = timed_graph()
    content["ops"][1]["time_ns"] = time
    path = tmp_path / "step.json"
    path.write_text(json.dumps(content))
    assert_refused(run("plan", path, "--budget", "300"), f"ebbtide plan: {path}: ", "ops[1]")


def test_text_has_the_figures():
    done = run("plan", *RESNET, "--budget", "80%", *QUICK)
    assert (done.returncode, done.stderr) == (0, "")
    for part in ("peak", "iteration", "kept", "swapped", "recomputed", "one iteration"):
        assert part in done.stdout
    assert re.search(r"\d\.\d{3}x of plain", done.stdout)
    assert max(map(len, done.stdout.splitlines())) <= 80
