"""Takes nodes with GPUs away from a cluster of Ray while a search runs on it. A module of its own, as Tune pickles callbacks and a cluster cannot be."""

import random

from _cluster import GPU_NODE
from ray import tune

BETWEEN = 10  # reports from one kill to the next


class Killer(tune.Callback):
    cluster, wanted, killed, reports, random = None, 0, 0, 0, random.Random(0)

    def on_trial_result(self, iteration, trials, trial, result, **info):
        Killer.reports += 1
        if Killer.reports % BETWEEN == 0 and Killer.killed < Killer.wanted:
            nodes = Killer.cluster.gpu_nodes
            Killer.cluster.remove_node(nodes.pop(Killer.random.randrange(len(nodes))), allow_graceful=False)
            nodes.append(Killer.cluster.add_node(**GPU_NODE))
            Killer.killed += 1
