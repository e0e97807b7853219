"""ebbtide cluster: traces in, policies out."""

import json

import pytest
from support.command_line import result_of, run

TRACE = """arrival,model,batch,work,declared
0,resnet18,64,2000,8GiB
5,mobilenet_v2,64,2000,
9,resnet18,64,2000,1GiB
"""


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text(TRACE)
    return path


def by_policy(result):
    return {policy["policy"]: policy for policy in result["policies"]}


def test_every_policy_ends_all_jobs(trace):
    policies = by_policy(result_of("cluster", trace, "--nodes", "1x1xa100-40gb"))
    assert list(policies) == ["exclusive", "mps", "carma", "best-fit", "fgd", "ebbtide"]
    for policy in policies.values():
        assert policy["ended"] == 3 and policy["waiting"] == policy["refused"] == 0
        assert 0 < policy["utilisation"] <= 1 and policy["makespan_s"] > 0 and policy["mean_wait_s"] >= 0
    assert policies["mps"]["oom"] == 1  # the third declares less than it takes
    assert policies["ebbtide"]["oom"] == policies["exclusive"]["oom"] == 0
    assert policies["ebbtide"]["makespan_s"] < policies["exclusive"]["makespan_s"]


def test_what_is_too_large_is_refused_before_it_starts(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("arrival,model,batch,work\n0,resnet50,4096,10\n")
    policies = by_policy(result_of("cluster", path, "--nodes", "1x1xrtx3060"))
    assert (policies["ebbtide"]["refused"], policies["ebbtide"]["oom"]) == (1, 0)
    assert policies["exclusive"]["oom"] == 1


def test_shares_of_gpus(tmp_path):
    path = tmp_path / "pods.csv"
    header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    path.write_text(header + "\n" + "".join(f"p{i},1000,1024,1,{300 + 100 * (i % 4)},,LS,Running,{i},{i + 50},{i}\n" for i in range(20)))
    filled = by_policy(result_of("cluster", path, "--nodes", "1x4xt4", "--fill", "200%"))
    assert filled["exclusive"]["allocation"] < filled["fgd"]["allocation"] <= 1
    again = by_policy(result_of("cluster", path, "--nodes", "1x4xt4", "--fill", "200%"))
    assert filled == again
    replayed = by_policy(result_of("cluster", path, "--nodes", "1x4xt4"))
    assert all(policy["ended"] == 20 for policy in replayed.values())


def test_faces(trace, tmp_path):
    done = run("cluster", trace, "--nodes", "1x1xa100-40gb", "--policy", "ebbtide", "-o", tmp_path / "c.html", "-o", tmp_path / "c.json")
    assert done.returncode == 0 and "ebbtide" in done.stdout
    assert "gantt" in (tmp_path / "c.html").read_text()
    assert [policy["policy"] for policy in json.loads((tmp_path / "c.json").read_text())["policies"]] == ["ebbtide"]


@pytest.mark.parametrize(("words", "says"), [
    (["--nodes", "8xa100"], "expected NODESxGPUSxNAME"),
    (["--nodes", "1x1xa101"], "a101"),
    (["--nodes", "1x1xa100-40gb", "--policy", "best"], "--policy best: expected exclusive"),
    (["--nodes", "1x1xa100-40gb", "--fill", "130%"], "--fill: expected a trace that asks for shares"),
    (["--nodes", "1x1xa100-40gb", "--trace", "x"], "has but one trace"),
    ([], "expected --nodes"),
])
def test_bad_usage(trace, words, says):
    done = run("cluster", trace, *words)
    assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1


def test_a_model_that_is_not_known_is_named_with_its_line(tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("arrival,model,batch,work\n0,resnet18,8,10\n1,resnet51,8,10\n")
    done = run("cluster", path, "--nodes", "1x1xa100-40gb")
    assert done.returncode == 2 and f"{path}, line 3" in done.stderr
