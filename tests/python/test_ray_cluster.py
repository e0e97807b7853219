"""ebbtide.ray on a real cluster of Ray, several nodes on this machine with logical GPUs, trials on the CPU."""

import os
import sys

import pytest

torch = pytest.importorskip("torch")
ray = pytest.importorskip("ray")

from ray import tune  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from support.ray_trials import losses_alone, step_fn  # noqa: E402

import ebbtide  # noqa: E402

STEPS = 24


GPU_NODE = {"num_cpus": 1, "num_gpus": 1, "object_store_memory": 100 << 20}


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "num_gpus": 0, "include_dashboard": False, "object_store_memory": 100 << 20})
    Killer.cluster, Killer.nodes = made, [made.add_node(**GPU_NODE) for _ in range(2)]
    ray.init(address=made.address, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}})
    yield made
    ray.shutdown()
    made.shutdown()


class Killer(tune.Callback):
    """Takes the nodes with GPUs away, with all that runs on them, when trials have reported twice, and has another come."""

    cluster, nodes, reports = None, (), 0  # of the class, as Tune pickles callbacks

    def on_trial_result(self, iteration, trials, trial, result, **info):
        Killer.reports += 1
        if Killer.reports == 2:
            for node in Killer.nodes:
                Killer.cluster.remove_node(node, allow_graceful=False)
            Killer.cluster.add_node(**GPU_NODE)


def test_trials_survive_their_nodes_and_are_stopped_by_asha_with_the_bits_they_have_alone(cluster, tmp_path):
    search = ebbtide.ray.SharedTuner(
        step_fn, capacity="16MiB", iterations=STEPS, report_every=6, device="cpu", by=["width"],
        param_space={"width": tune.grid_search([128, 192]), "lr": tune.grid_search([1e-3, 1e-2])},
        tune_config=tune.TuneConfig(metric="loss", mode="min", max_concurrent_trials=3,
                                    scheduler=tune.schedulers.ASHAScheduler(grace_period=2, max_t=STEPS // 6, reduction_factor=2)),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0, callbacks=[Killer()]))
    found = search.fit()
    assert len(found) == 4 and not found.errors
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for result in found:
            taken = result.metrics["iterations"]
            assert 12 <= taken <= STEPS and taken % 6 == 0
            assert result.metrics["loss"] == losses_alone(result.config, taken)[-1]
    finally:
        torch.set_num_threads(before)
    assert Killer.reports >= 4 and any(result.metrics["times_lost"] for result in found)
    assert all(gpu["peak_bytes"] <= gpu["capacity_bytes"] and not gpu["trials"] for gpu in search.report)
