"""ebbtide.Shared on device cuda, on the phantom GPU with its race checker. Kernels are skipped there, so numbers are not compared; what
is: that no job touches memory before another is done with it, and what random numbers each has drawn."""

import pytest
from support.cuda_steps import run
from support.on_phantom import needs_phantom

pytest.importorskip("torch")

pytestmark = needs_phantom

HEAD = """
from ebbtide import BudgetError
from ebbtide import SharedError

def least(steps):
    with ebbtide.Shared(capacity=512) as gpu:
        for step in steps:
            gpu.add(step)
        try:
            gpu.run(iterations=1)
        except BudgetError as error:
            return error.minimum_budget_bytes

cnns = [Cnn(batch) for batch in (64, 48, 32)]
steps = [cnns[0].step(), cnns[1].step(budget="70%"), cnns[2].step()]
capacity = least(steps)
"""


@pytest.mark.parametrize("more", ["0", "0.4", "2"])
def test_jobs_share_a_gpu_without_a_race(tmp_path, more):
    said, statistics = run(HEAD + f"""
torch.cuda.manual_seed(5)
for _ in range(4):
    F.cross_entropy(cnns[0].model(cnns[0].batch[0]), cnns[0].batch[1]).backward()
plain = torch.cuda.get_rng_state().numpy().tobytes()
torch.cuda.manual_seed(6)
before = torch.cuda.get_rng_state()
with ebbtide.Shared(capacity=int(capacity * (1 + {more}))) as gpu:
    for step in steps:
        torch.cuda.manual_seed(5)
        gpu.add(step)
    torch.cuda.manual_seed(6)
    undeclared = phantom.ebbtide_phantom_undeclared_launches()
    gpu.run(iterations=3)
    gpu.run(iterations=1)
    fields = gpu.report().to_dict()
    fields["waits"], pool = gpu.pool().waits, gpu.pool()
    random = gpu.jobs[0].execution.engine.random_state
fields |= {{"races": races(), "held": pool.held, "global": torch.equal(torch.cuda.get_rng_state(), before), "drawn": random.endswith(plain)}}
steps[0](*cnns[0].batch)
print(json.dumps(fields | {{"races_alone": races()}}))
""", tmp_path)
    assert said["races"] == said["races_alone"] == said["held"] == 0 and statistics["declared_accesses"] > 1000
    assert 0 < said["peak_bytes"] <= said["capacity_bytes"]
    assert [job["iterations"] for job in said["jobs"]] == [4, 4, 4]
    assert said["waits"] > 10 and said["global"] and said["drawn"]


def test_a_job_that_fails_or_is_stopped_leaves_no_race_behind(tmp_path):
    said, statistics = run(HEAD + """
stops = []

def stop(job, loss):
    if job.iterations in (2, 5):
        stops.append(gpu.jobs[1].iterations)
        gpu.jobs[1].stop()

with ebbtide.Shared(capacity=int(1.2 * capacity)) as gpu:
    jobs = [gpu.add(steps[0], after=stop), gpu.add(steps[1]), gpu.add(steps[2])]
    gpu.run(iterations=4)
    gpu.run(iterations=4)
    jobs[2].execution.engine.fail_at(20)
    try:
        gpu.run(iterations=2)
        failed = ""
    except SharedError as error:
        failed = str(error)
    fields = {"iterations": [job.iterations for job in jobs], "failed": failed, "left": len(gpu.jobs)}
    pool = gpu.pool()
steps[2](*cnns[2].batch)
print(json.dumps(fields | {"races": races(), "held": pool.held, "stops": stops}))
""", tmp_path)
    assert said["races"] == said["held"] == 0
    assert said["iterations"][0] == 10 and said["iterations"][2] == 8 and said["left"] == 2
    assert "OutOfMemoryError" in said["failed"] and len(said["stops"]) == 2
