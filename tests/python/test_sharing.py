"""ebbtide.Shared: several trainings in one pool, each with the bits that it has alone, whatever becomes of the others."""

import _thread
import copy
import os

import pytest

torch = pytest.importorskip("torch")

from support import run_models  # noqa: E402
from support.replay import same_bits  # noqa: E402

import ebbtide  # noqa: E402
from ebbtide import BudgetError, SharedError  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread", "own_cache")


class Training:
    """A model with its optimizer, and an exact copy of both that trains alone."""

    def __init__(self, name, seed, **options):
        torch.manual_seed(seed)
        self.seed, self.options = seed, options
        self.model, self.loss_fn, self.batch = run_models.ALL[name]()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.lone_model, self.lone_optimizer = copy.deepcopy((self.model, self.optimizer))
        self.step = ebbtide.step(self.model, self.loss_fn, self.optimizer, self.batch, **options)

    def add(self, gpu, *more, **options):
        torch.manual_seed(self.seed)
        self.job = gpu.add(self.step, *more, **options)
        return self.job

    def alone(self, steps, batches=None):
        """Losses of the copy."""
        torch.manual_seed(self.seed)
        step = ebbtide.step(self.lone_model, self.loss_fn, self.lone_optimizer, self.batch, **self.options)
        losses = []
        for batch in batches or [self.batch] * steps:
            losses.append(step(batch).item())
            if len(losses) == steps:
                break
        self.lone_step = step
        return losses

    def assert_same(self):
        for (name, a), b in zip(self.model.state_dict().items(), self.lone_model.state_dict().values()):
            assert same_bits(a, b), name
        a, b = self.optimizer.state_dict()["state"], self.lone_optimizer.state_dict()["state"]
        assert a.keys() == b.keys()
        for number, state in b.items():
            for name, value in state.items():
                assert same_bits(a[number][name], value), (number, name)


def least(trainings):
    """The capacity at which an iteration of one has room beside all state, and no more."""
    with ebbtide.Shared(capacity=512) as gpu:
        for training in trainings:
            training.add(gpu)
        with pytest.raises(BudgetError, match="without further plans") as caught:
            gpu.run(iterations=1)
    return caught.value.minimum_budget_bytes


def own_height(gpu, job):
    """Of an iteration by the plan that its step has."""
    return gpu._arranger_of_jobs().within(job, job.prepare(job._leaves_of(job.step._example)), gpu.capacity, 0).height


@pytest.mark.parametrize("more", [0.0, 0.5, 2.0])
def test_each_trains_as_alone(more):
    trainings = [Training("cnn", 1), Training("lstm", 2), Training("cnn", 3, budget="60%")]
    expected = [training.alone(4) for training in trainings]
    capacity = int(least(trainings) * (1 + more))
    random_state = torch.get_rng_state()
    with ebbtide.Shared(capacity=capacity) as gpu:
        for training in trainings:
            training.add(gpu)
        torch.set_rng_state(random_state)
        gpu.run(iterations=3)
        gpu.run(iterations=1)
        assert [training.job.losses for training in trainings] == expected
        for training in trainings:
            training.assert_same()  # in the pool
        report = gpu.report().to_dict()
        assert 0 < report["peak_bytes"] <= report["capacity_bytes"] <= capacity
        assert [job["iterations"] for job in report["jobs"]] == [4, 4, 4]
        assert "ran beside another job's" in repr(gpu.report())
        pool = gpu.pool()
    assert pool.held == 0
    assert torch.equal(torch.get_rng_state(), random_state)
    for training in trainings:  # out of it, and alone again
        training.assert_same()
        torch.manual_seed(9)
        mine = training.step(training.batch)
        torch.manual_seed(9)
        assert same_bits(mine, training.lone_step(training.batch))
        training.assert_same()


def loader_of(training, count):
    x, y = training.batch
    data = torch.utils.data.TensorDataset(x.repeat(count, 1, 1, 1) + torch.arange(count * len(x)).view(-1, 1, 1, 1) / 100, y.repeat(count))
    return torch.utils.data.DataLoader(data, batch_size=len(x), shuffle=True)


def test_batches_of_loaders_are_drawn_as_alone():
    """Also the order in which a loader shuffles, and what ends an epoch."""
    trainings = [Training("cnn", 1), Training("cnn", 2)]
    loaders = [loader_of(training, 3) for training in trainings]
    expected = []
    for training, loader in zip(trainings, loaders):
        torch.manual_seed(training.seed)
        losses = []
        step = ebbtide.step(training.lone_model, training.loss_fn, training.lone_optimizer, training.batch)
        for _ in range(2):
            losses += [step(*batch).item() for batch in loader]
        expected.append(losses)
    seen = []
    with ebbtide.Shared(capacity="64MiB") as gpu:
        for training, loader in zip(trainings, loaders):
            training.add(gpu, loader, after=lambda job, loss: seen.append((job.name, loss.item())))
        gpu.run()
        gpu.run()
        assert [training.job.losses for training in trainings] == expected
        assert [loss for name, loss in seen if name == trainings[1].job.name] == expected[1]
    for training in trainings:
        training.assert_same()


def test_other_shapes_and_several_batches_per_update():
    trainings = [Training("cnn", 1), Training("cnn", 2, accumulate=2)]
    x, y = trainings[0].batch
    shorter = [(x, y), (x[:4], y[:4]), (x, y), (x[:4], y[:4])]
    expected = [trainings[0].alone(4, shorter), trainings[1].alone(4)]
    with ebbtide.Shared(capacity="64MiB") as gpu:
        trainings[0].add(gpu, shorter)
        trainings[1].add(gpu)
        gpu.run(iterations=4)
        assert [training.job.losses for training in trainings] == expected
    for training in trainings:
        training.assert_same()


def test_a_job_that_is_too_tall_runs_under_a_plan():
    trainings = [Training("cnn", 1), Training("cnn", 2)]
    expected = [trainings[0].alone(4), trainings[1].alone(3)]
    with ebbtide.Shared(capacity=int(0.7 * least(trainings))) as gpu:
        trainings[0].add(gpu)
        gpu.run(iterations=1)
        trainings[1].add(gpu, iter([trainings[1].batch] * 3))
        gpu.run(iterations=2)
        gpu.run(iterations=1)
        assert [training.job.losses for training in trainings] == expected
        report = gpu.report().to_dict()
        assert report["peak_bytes"] <= report["capacity_bytes"]
        last = trainings[0].job.execution.prepared.last
        assert last["copied_out_bytes"] + last["recompute_ns"] > 0
    for training in trainings:
        training.assert_same()


def test_jobs_that_fill_the_pool_are_planned_for_less_where_that_pays(monkeypatch):
    """Alone each of two such jobs fills the lane; with a core for each, and plans that leave room, their groups overlap."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))
    for policy in ("none", "home"):
        trainings = [Training("cnn", seed, policy=policy, budget=None) for seed in (1, 2)]
        expected = [training.alone(6) for training in trainings]
        with ebbtide.Shared(capacity=least(trainings)) as gpu:
            for training in trainings:
                training.add(gpu)
            heights = [own_height(gpu, training.job) for training in trainings]
            gpu.run(iterations=6)
            assert [training.job.losses for training in trainings] == expected
            report = gpu.report().to_dict()
        assert report["peak_bytes"] <= report["capacity_bytes"]
        assert policy == "none" or report["overlapped_groups"] > 0
        lower = [job["transient_bytes"] < 0.93 * height for job, height in zip(report["jobs"], heights)]
        assert lower == [policy == "home"] * 2
        for training in trainings:
            training.assert_same()


def test_an_iterator_ends_its_job_alone():
    trainings = [Training("cnn", 1), Training("cnn", 2)]
    expected = [trainings[0].alone(2), trainings[1].alone(5)]
    with ebbtide.Shared(capacity="64MiB") as gpu:
        trainings[0].add(gpu, iter([trainings[0].batch] * 2))
        trainings[1].add(gpu)
        with pytest.raises(ValueError, match="has no batches of its own; expected a number of iterations"):
            gpu.run()
        gpu.run(iterations=5)
        assert [training.job.losses for training in trainings] == expected


# -- what fails ----------------------------------------------------------------------------------------------------------


def test_a_job_that_fails_has_changed_nothing_and_the_rest_go_on():
    trainings = [Training("cnn", 1), Training("cnn", 2), Training("lstm", 3)]
    x, y = trainings[0].batch
    expected = [trainings[0].alone(2), trainings[1].alone(6), trainings[2].alone(6)]
    capacity = least(trainings)
    with ebbtide.Shared(capacity=capacity) as gpu:
        trainings[0].add(gpu, iter([(x, y), (x, y), (x, torch.full_like(y, 10))]), name="wrong")  # there are ten classes
        for training in trainings[1:]:
            training.add(gpu)
        with pytest.raises(SharedError, match="wrong: RuntimeError: .*nll_loss") as caught:
            gpu.run(iterations=6)
        assert caught.value.jobs == [trainings[0].job] and trainings[0].job not in gpu.jobs
        assert [training.job.losses for training in trainings] == expected
        states = sum(job["state_bytes"] for job in gpu.report().to_dict()["jobs"])
        assert len(gpu.jobs) == 2 and gpu.held_bytes == states
    for training in trainings:
        training.assert_same()
    assert torch.isfinite(trainings[0].step(x, y))


def test_a_job_that_needs_more_than_it_declared_has_its_own_oom():
    trainings = [Training("cnn", 1), Training("cnn", 2)]
    expected = [trainings[0].alone(1), trainings[1].alone(5)]
    with ebbtide.Shared(capacity=least(trainings)) as gpu:
        for training in trainings:
            training.add(gpu)
        gpu.run(iterations=1)
        trainings[0].job.execution.engine.fail_at(7)
        with pytest.raises(SharedError, match="OutOfMemoryError: .*the step has changed nothing"):
            gpu.run(iterations=4)
        assert [training.job.losses for training in trainings] == expected
    for training in trainings:
        training.assert_same()


def test_a_job_is_stopped_and_goes_on_in_the_next_run():
    trainings = [Training("cnn", 1), Training("cnn", 2)]

    def stop_the_first(job, loss):
        if job.iterations == 3:
            trainings[0].job.stop()

    with ebbtide.Shared(capacity=least(trainings)) as gpu:
        trainings[0].add(gpu)
        trainings[1].add(gpu, after=stop_the_first)
        gpu.run(iterations=30)
        taken = trainings[0].job.iterations
        assert trainings[0].job.stopped and 1 <= taken < 30 and trainings[1].job.iterations == 30
        gpu.run(iterations=2)
        assert trainings[0].job.losses == trainings[0].alone(taken + 2)
        assert trainings[1].job.losses == trainings[1].alone(32)
    for training in trainings:
        training.assert_same()


def test_an_interrupt_stops_all_and_leaves_whole_steps(interrupts):
    trainings = [Training("cnn", 1), Training("cnn", 2)]

    def interrupt_in_the_third(job, loss):
        if job.iterations == 3:
            _thread.interrupt_main()

    with ebbtide.Shared(capacity=least(trainings)) as gpu:
        trainings[0].add(gpu, after=interrupt_in_the_third)
        trainings[1].add(gpu)
        with pytest.raises(KeyboardInterrupt):
            gpu.run(iterations=1000)
        assert gpu.held_bytes == 0
        for training in trainings:
            assert training.job.losses == training.alone(training.job.iterations)
            training.assert_same()


def test_what_is_refused():
    training = Training("cnn", 1)
    for capacity in (True, 1.5, "50%", "a lot"):
        with pytest.raises(ValueError, match="expected"):
            ebbtide.Shared(capacity=capacity)
    with ebbtide.Shared(capacity="64MiB") as gpu:
        with pytest.raises(TypeError, match="expected what ebbtide.step returns"):
            gpu.add(training.model)
        training.add(gpu)
        with pytest.raises(ValueError, match="in an ebbtide.Shared already"):
            gpu.add(training.step)
        with pytest.raises(RuntimeError, match="which runs it"):
            training.step(*training.batch)
        with pytest.raises(RuntimeError, match="nothing has run yet"):
            gpu.report()
        with pytest.raises(ValueError, match="weight 0: expected a number from 1 to 1000"):
            gpu.add(Training("cnn", 2).step, weight=0)
        gpu.remove(training.job)
        training.step(*training.batch)


def test_jobs_come_while_others_run():
    first, second, third = Training("cnn", 1), Training("lstm", 2), Training("cnn", 3)
    expected = [training.alone(4) for training in (first, second, third)]
    too_large = Training("vgg16", 4)

    def bring(job, loss):
        if job.iterations == 2:
            for training in (third, too_large):
                with torch.random.fork_rng():
                    training.add(gpu)

    with ebbtide.Shared(capacity=2 * least([first, second, third])) as gpu:
        first.add(gpu, after=bring)
        second.add(gpu)
        with pytest.raises(SharedError, match="VGG: BudgetError.*; the others go on"):
            gpu.run(iterations=4)
        assert [training.job.losses for training in (first, second, third)] == expected
        assert too_large.job.losses == [] and too_large.job not in gpu.jobs
        pool = gpu.pool()
    for training in (first, second, third):
        training.assert_same()
    assert pool.held == 0
