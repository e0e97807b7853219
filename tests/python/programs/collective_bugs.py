"""Two ranks that disagree about their collectives: collective_bugs.py NAME, one bug each. The last words of each rank are
what it does wrong. `late` alone is right: each rank's first thread computes for long before it comes to where the other's second thread waits."""

import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def t(count=4, dtype=torch.float32):
    return torch.ones(count, dtype=dtype, device="cuda")


def gather(count):
    dist.all_gather_into_tensor(t(2 * count), t(count))


def scatter_sum(count):
    dist.reduce_scatter_tensor(t(count), t(2 * count))


def order(first, second):
    first()
    second()


def late(first, second):
    """A collective of `second` while another thread waits in one of `first`, after 8 s of the processor."""
    device = torch.cuda.current_device()

    def early():
        torch.cuda.set_device(device)
        with torch.cuda.stream(torch.cuda.Stream()):
            dist.all_reduce(t(), group=first)

    thread = threading.Thread(target=early)
    thread.start()
    end = time.process_time() + 8
    while time.process_time() < end:
        pass
    dist.all_reduce(t(), group=second)
    torch.cuda.synchronize()
    thread.join()


def ends(how):
    how()


# By name: what rank 0 does, what rank 1 does. Each is called with the group [0, 1], which both have used before.
BUGS = {
    "reduce-gather": (lambda g: dist.all_reduce(t()), lambda g: gather(4)),
    "reduce-broadcast": (lambda g: dist.all_reduce(t()), lambda g: dist.broadcast(t(), 0)),
    "scatter-reduce": (lambda g: scatter_sum(4), lambda g: dist.all_reduce(t())),
    "gather-scatter": (lambda g: gather(4), lambda g: scatter_sum(4)),
    "size": (lambda g: dist.all_reduce(t(4)), lambda g: dist.all_reduce(t(5))),
    "size-gather": (lambda g: gather(4), lambda g: gather(8)),
    "size-scatter": (lambda g: scatter_sum(4), lambda g: scatter_sum(6)),
    "size-broadcast": (lambda g: dist.broadcast(t(4), 0), lambda g: dist.broadcast(t(3), 0)),
    "type-half": (lambda g: dist.all_reduce(t()), lambda g: dist.all_reduce(t(dtype=torch.float16))),
    "type-int": (lambda g: dist.all_reduce(t(dtype=torch.int64)), lambda g: dist.all_reduce(t(dtype=torch.int32))),
    "max": (lambda g: dist.all_reduce(t()), lambda g: dist.all_reduce(t(), dist.ReduceOp.MAX)),
    "average": (lambda g: dist.all_reduce(t()), lambda g: dist.all_reduce(t(), dist.ReduceOp.AVG)),
    "root": (lambda g: dist.broadcast(t(), 0), lambda g: dist.broadcast(t(), 1)),
    "root-reduce": (lambda g: dist.reduce(t(), 0), lambda g: dist.reduce(t(), 1)),
    "order": (lambda g: order(lambda: dist.all_reduce(t()), lambda: gather(4)),
              lambda g: order(lambda: gather(4), lambda: dist.all_reduce(t()))),
    "order-sizes": (lambda g: order(lambda: dist.all_reduce(t(4)), lambda: dist.all_reduce(t(6))),
                    lambda g: order(lambda: dist.all_reduce(t(6)), lambda: dist.all_reduce(t(4)))),
    "order-roots": (lambda g: order(lambda: dist.broadcast(t(), 0), lambda: dist.broadcast(t(), 1)),
                    lambda g: order(lambda: dist.broadcast(t(), 1), lambda: dist.broadcast(t(), 0))),
    "missing-then-ends": (lambda g: dist.all_reduce(t()), lambda g: None),
    "missing-then-barrier": (lambda g: order(lambda: dist.all_reduce(t()), dist.barrier), lambda g: dist.barrier()),
    "missing-then-gather": (lambda g: order(lambda: dist.all_reduce(t()), lambda: gather(4)), lambda g: gather(4)),
    "one-more": (lambda g: [dist.all_reduce(t()) for _ in range(3)], lambda g: [dist.all_reduce(t()) for _ in range(4)]),
    "barrier-alone": (lambda g: dist.barrier(), lambda g: None),
    "raises": (lambda g: dist.all_reduce(t()), lambda g: ends(lambda: 1 // 0)),
    "exits": (lambda g: dist.all_reduce(t()), lambda g: ends(lambda: os._exit(3))),
    "killed": (lambda g: dist.all_reduce(t()), lambda g: ends(lambda: os.kill(os.getpid(), signal.SIGKILL))),
    "group": (lambda g: order(lambda: dist.all_reduce(t()), torch.cuda.synchronize),
              lambda g: order(lambda: dist.all_reduce(t(), group=g), torch.cuda.synchronize)),
    "group-order": (lambda g: [order(lambda one=one: dist.all_reduce(t(), group=one), torch.cuda.synchronize) for one in (None, g)],
                    lambda g: [order(lambda one=one: dist.all_reduce(t(), group=one), torch.cuda.synchronize) for one in (g, None)]),
    "both-receive": (lambda g: order(lambda: dist.recv(t(), 1), torch.cuda.synchronize),
                     lambda g: order(lambda: dist.recv(t(), 0), torch.cuda.synchronize)),
    "receive-size": (lambda g: dist.send(t(4), 1), lambda g: order(lambda: dist.recv(t(5), 0), torch.cuda.synchronize)),
    "receive-nothing": (lambda g: order(lambda: dist.recv(t(), 1), torch.cuda.synchronize), lambda g: None),
    "all-to-all-size": (lambda g: dist.all_to_all_single(t(4), t(4)), lambda g: dist.all_to_all_single(t(8), t(8))),
}

RIGHT = {"late": (lambda g: late(None, g), lambda g: late(g, None))}


def main(rank, name):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method="tcp://127.0.0.1:" + os.environ["BUGS_PORT"], rank=rank, world_size=2)
    group = dist.new_group([0, 1])
    dist.all_reduce(t())
    dist.all_reduce(t(), group=group)
    torch.cuda.synchronize()
    (BUGS | RIGHT)[name][rank](group)
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        os.environ["BUGS_PORT"] = str(probe.getsockname()[1])
    mp.spawn(main, args=(sys.argv[1],), nprocs=2)
