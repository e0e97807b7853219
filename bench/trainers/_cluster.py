"""Several nodes of Ray on this machine: a head, and nodes with a logical GPU each."""

import contextlib
import os
import sys

import ray
from ray.cluster_utils import Cluster

GPU_NODE = {"num_cpus": 4, "num_gpus": 1, "object_store_memory": 100 << 20}


os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's own 15 would measure what else runs on the machine


@contextlib.contextmanager
def cluster_of(gpus, **variables):
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 4, "num_gpus": 0, "include_dashboard": False, "object_store_memory": 100 << 20})
    made.gpu_nodes = [made.add_node(**GPU_NODE) for _ in range(gpus)]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"} | variables
    ray.init(address=made.address, log_to_driver=False, runtime_env={"env_vars": environment})
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
