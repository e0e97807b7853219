"""What users do to a step, a budget or a Shared that is not what they are for: a refusal, never a crash or a hang."""

import copy
import gc
import os

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import ebbtide


def trained_step(width=32, **options):
    model = torch.nn.Sequential(torch.nn.Linear(16, width), torch.nn.ReLU(), torch.nn.Linear(width, 4))
    batch = torch.randn(8, 16), torch.randint(4, (8,))
    step = ebbtide.step(model, F.cross_entropy, torch.optim.Adam(model.parameters()), batch, **options)
    return model, step, batch


def in_child(function):
    """What a child by fork says of it: its result, or the error."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)  # as workers of a DataLoader do: OpenMP's threads are not there
            said = str(function())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as file:
        said = file.read()
    assert os.waitpid(child, 0)[1] == 0
    return said


def test_arrays_of_numpy_stay_readable():
    model, step, batch = trained_step()
    weight = model[0].weight
    early, start = weight.detach().numpy(), weight.detach().clone()
    step(*batch)
    late = weight.detach().numpy()
    np.testing.assert_array_equal(late, weight.detach().numpy())
    assert (early == start.numpy()).all()  # of before the step: its own memory, as it was
    step.close()
    now = weight.detach().clone().numpy()
    np.testing.assert_array_equal(early, now)  # which is the weight's again
    del step
    np.testing.assert_array_equal(late, now)
    for _ in range(4):  # memory that is taken now is not theirs
        torch.randn(1 << 20)
    np.testing.assert_array_equal(late, now)
    with torch.no_grad():
        weight.fill_(7)
    assert (early == 7).all()


def test_the_pool_goes_where_nobody_looks_at_it():
    def mapped():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * 4096

    kept = []
    before = mapped()
    for _ in range(6):
        model, step, batch = trained_step(budget="2GiB")
        step(*batch)
        step.close()
        kept.append(model)
        del step
        gc.collect()
    assert mapped() - before < 4 << 30  # pools of 2 GiB each


def test_a_child_by_fork_is_refused_and_ends():
    _, step, batch = trained_step()
    step(*batch)
    assert in_child(lambda: step(*batch)).startswith("RuntimeError: the step was made in another process")
    step(*batch)


def test_a_budget_is_not_that_of_children():
    with ebbtide.budget("8MiB"):
        said = in_child(lambda: torch.ones(1 << 24).sum().item())  # 64 MiB
        with pytest.raises(torch.OutOfMemoryError):
            torch.ones(1 << 24)
    assert said == str(float(1 << 24))


def test_a_storage_that_is_saved_again_after_a_change():
    """Its halves are tensors of their own to autograd: the second may change while the first is saved."""

    def iteration(swaps):
        both = torch.zeros(2, 1 << 18)
        first, second = both[0].data, both[1].data
        first += 3
        w = torch.ones(1 << 18, requires_grad=True)
        y = (w * first).sum()
        torch.ones(1 << 18)  # a request: what left the last time is copied now
        second += 5
        y = y + (w * second).sum()
        del both, first, second
        if swaps:
            torch.empty(limit // 4 - (3 << 18))  # more than there is room for
        y.backward()
        return w.grad

    limit = 9 << 20
    expected = iteration(False)
    with ebbtide.budget(limit) as budget:
        for _ in range(3):
            assert torch.equal(iteration(True), expected)
        assert budget.report()["copied_out_bytes"] > 0


def test_sizes_beyond_addresses():
    with pytest.raises(ValueError, match="capacity 1180591620717411303424: expected at most"):
        ebbtide.Shared(2**70)
    with pytest.raises(ValueError, match="budget 18446744073709551626: expected at most"):
        ebbtide.budget(2**64 + 10)


def test_a_shared_without_jobs():
    with ebbtide.Shared("1GiB") as shared, pytest.raises(ValueError, match="no jobs"):
        shared.run(1)


def test_close_within_after():
    _, step, _ = trained_step()
    with ebbtide.Shared("64MiB") as shared:
        job = shared.add(step, after=lambda job, loss: shared.close())
        with pytest.raises(ebbtide.SharedError, match="close is called while run runs"):
            shared.run(2)
        assert job.iterations == 1


def test_jobs_with_a_common_layer():
    model, step, batch = trained_step()
    other = torch.nn.Sequential(model[0], torch.nn.ReLU(), torch.nn.Linear(32, 4))
    second = ebbtide.step(other, F.cross_entropy, torch.optim.SGD(other.parameters(), 0.1), batch)
    with ebbtide.Shared("64MiB") as shared:
        shared.add(step, name="one")
        with pytest.raises(ValueError, match=r"two: has 0\.(weight|bias) in common with one"):
            shared.add(second, name="two")
        _, third, _ = trained_step()
        shared.add(third)
        shared.run(1)


def test_a_batch_whose_step_was_undone_comes_again():
    model, step, _ = trained_step()
    batches = [(torch.randn(8, 16), torch.randint(4, (8,))) for _ in range(4)]
    other = copy.deepcopy(model)
    alone = ebbtide.step(other, F.cross_entropy, torch.optim.Adam(other.parameters()), batches[0])
    expected = [alone(*batch).item() for batch in batches]
    with ebbtide.Shared("64MiB") as shared:
        def source():
            for number, batch in enumerate(batches):
                if number == 2 and not job.stopped:
                    job.stop()  # the step of this batch is undone
                yield batch

        job = shared.add(step, source())
        shared.run()
        assert len(job.losses) == 2
        shared.run()
    assert job.losses == expected


def test_one_step_from_two_threads():
    _, step, batch = trained_step()
    step(*batch)
    with step._gate, pytest.raises(RuntimeError, match="the step is running already"):
        step(*batch)
    with step._gate, pytest.raises(RuntimeError, match="the step is running already"):
        step.close()
    step(*batch)


@torch._dynamo.config.patch(specialize_float=False)
def test_a_float_that_changes_under_dynamic_shapes():
    compiled = torch.compile(lambda x, scale: (x * scale).sum(), backend="ebbtide", dynamic=True)
    with pytest.raises(ebbtide.CaptureError, match=r"test_doors\.py:\d+: a number is read from a tensor, as torch\.compile does with a float"):
        compiled(torch.randn(8, requires_grad=True), 0.5)
