"""What ebbtide.ray's trials run in, and what they are given, without a cluster: the same bits as alone, whoever comes and goes meanwhile."""

import threading

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("ray")

from support.ray_trials import losses_alone, step_fn  # noqa: E402

import ebbtide  # noqa: E402
from ebbtide.ray.trials import Trials  # noqa: E402

CONFIGS = [{"width": 128, "lr": 1e-3}, {"width": 256, "lr": 3e-4}, {"width": 192, "lr": 1e-2}]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_trials_that_come_go_pause_and_move_have_the_bits_they_have_alone():
    here, elsewhere, losses = Trials(step_fn, "16MiB"), Trials(step_fn, "16MiB"), {}

    def run(number):
        name, config = f"trial {number}", CONFIGS[number]
        here.open(name, config)
        taken = here.advance(name, 7)  # within an epoch of four batches
        saved = here.save(name)
        here.close(name)
        there = elsewhere if number == 1 else here
        there.open(name, config, saved)
        losses[number] = taken + there.advance(name, 8)
        there.close(name)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(CONFIGS))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert losses == {number: losses_alone(config, 15) for number, config in enumerate(CONFIGS)}
    assert here.report()["trials"] == [] and 0 < here.report()["peak_bytes"] <= 16 << 20


def test_a_trial_without_room_is_refused_and_the_others_go_on():
    trials = Trials(step_fn, 2_100_000)  # one trial has 990 kB of state, and an iteration of some 500 kB
    trials.open("first", CONFIGS[1])
    first = trials.advance("first", 3)
    with pytest.raises(ebbtide.BudgetError):
        trials.open("second", CONFIGS[1] | {"lr": 0.1})
    assert first + trials.advance("first", 3) == losses_alone(CONFIGS[1], 6)
    trials.close("first")
    trials.open("second", CONFIGS[0])
    assert trials.advance("second", 4) == losses_alone(CONFIGS[0], 4)


def test_a_state_of_another_config_keeps_the_weights_and_takes_the_new_hyperparameters():
    trials = Trials(step_fn, "16MiB")
    trials.open("donor", CONFIGS[0])
    trials.advance("donor", 4)
    saved = trials.save("donor")
    trials.open("heir", CONFIGS[0] | {"lr": 0.5}, saved)
    job = trials._jobs["heir"][0]
    assert job.step._optimizer.param_groups[0]["lr"] == 0.5
    for mine, theirs in zip(job.step._model.parameters(), trials._jobs["donor"][0].step._model.parameters()):
        assert torch.equal(mine, theirs)


def test_shares_are_parts_of_one_card_and_come_from_predicted_peaks():
    wanted = ebbtide.ray.resources(step_fn, capacity="8MiB", by=["width"])
    for config in CONFIGS:
        needed = wanted.predict(config, wanted.cards[0])
        [bundle] = wanted(config).bundles
        neighbours = round(1 / bundle["GPU"])
        assert neighbours == min((8 << 20) // needed, 100) and neighbours * bundle["GPU"] <= 1
    assert wanted({"width": 128, "lr": 7}).bundles == wanted(CONFIGS[0]).bundles and len(wanted._by_config) == 3
    with pytest.raises(ebbtide.BudgetError, match=r"the largest card.*8\.00 MiB"):
        wanted({"width": 2048, "lr": 1e-3})
    # Out of memory once: half as many neighbours. At least one trial of the card's own remains.
    card, share = wanted.choose(CONFIGS[1])
    assert wanted.choose(CONFIGS[1], 1) == (card, max(share // 2, 1)) and wanted.choose(CONFIGS[1], 9) == (card, 1)


def test_a_trial_gets_the_smallest_of_several_gpus_by_its_label():
    wanted = ebbtide.ray.resources(step_fn, gpu=["a100-40gb", "t4"])
    factory = wanted(CONFIGS[0])
    assert factory._kwargs["bundle_label_selector"] == [{"ray.io/accelerator-type": "T4"}]
    assert 0 < factory.bundles[0]["GPU"] < 1
    with pytest.raises(ValueError, match="gpu=.*capacity="):
        ebbtide.ray.resources(step_fn)


def test_mistakes_of_a_step_function_are_said():
    with pytest.raises(ValueError, match=r"returns 2 values; expected \(model, loss_fn, optimizer, batch\)"):
        ebbtide.ray.resources(lambda config: (1, 2), capacity="8MiB")({})
