"""Training on several GPUs, three steps: ranks.py ddp | fsdp | mesh | values | polled, one rank of many; devices | replicas | stages | spawn, the whole."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn


def layers():
    return nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(4)])


def train(model, device):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(64, 512, device=device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def ddp():
    train(nn.parallel.DistributedDataParallel(layers().cuda()), "cuda")


def fsdp():
    from torch.distributed.fsdp import fully_shard

    with torch.device("meta"):
        model = layers()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device="cuda")
    train(model, "cuda")


def mesh():
    """Matrices over two ranks, shards over the others: groups of parts of the ranks, by torch and by hand."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    axes = init_device_mesh("cuda", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(*[nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)) for _ in range(2)]).cuda()
    for block in model:
        parallelize_module(block, axes["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(block, mesh=axes["dp"])
    pairs = [[first, first + 1] for first in range(0, dist.get_world_size(), 2)]
    pair = dist.split_group(split_ranks=pairs)
    assert dist.get_process_group_ranks(pair) == next(ranks for ranks in pairs if dist.get_rank() in ranks)
    total = torch.ones(1, device="cuda")
    dist.all_reduce(total, group=pair)
    assert total.item() == 2
    train(model, "cuda")


def values():
    """Small contents come through, between processes, as they are."""
    rank, count = dist.get_rank(), dist.get_world_size()
    total = torch.tensor([rank + 1.0], device="cuda")
    dist.all_reduce(total)
    assert total.item() == count * (count + 1) / 2
    objects = [None] * count
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * (10 * rank)})
    assert objects == [{"rank": r, "text": "x" * (10 * r)} for r in range(count)]
    given = [f"from {rank}"]
    dist.broadcast_object_list(given, src=0)
    assert given == ["from 0"]
    received = torch.empty(count, device="cuda")
    dist.all_to_all_single(received, torch.arange(float(count), device="cuda") + 10 * rank)
    assert received.tolist() == [10.0 * r + rank for r in range(count)]
    if rank == 0:
        dist.send(torch.tensor([42], device="cuda"), 1)
    elif rank == 1:
        number = torch.zeros(1, dtype=torch.int64, device="cuda")
        dist.recv(number, 0)
        assert number.item() == 42
    dist.barrier()


def polled():
    """One thread waits for what comes while another asks again and again whether it has come, as torch's watchdog does."""
    import threading

    for number in range(50):
        dist.barrier()
        value = torch.full((1,), float(number), device="cuda")
        if dist.get_rank() == 0:
            dist.send(value, 1)
            continue
        arrived = torch.cuda.Event()
        work = dist.irecv(value, 0)
        work.wait()
        arrived.record()
        asking = threading.Thread(target=lambda event=arrived: [None for _ in iter(event.query, True)])
        asking.start()
        arrived.synchronize()
        asking.join()
        assert value.item() == number


def devices():
    """One process: a model over two GPUs."""
    first, second = layers().to("cuda:0"), layers().to("cuda:1")
    optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters()])
    for _ in range(3):
        second(first(torch.randn(64, 512, device="cuda:0")).to("cuda:1")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def replicas():
    """One process: torch's DataParallel, a copy of the model and a part of the batch on every GPU."""
    train(nn.DataParallel(layers().to("cuda:0")), "cuda:0")


def stages():
    """One process: parts of a batch pass the GPUs one behind the other; every GPU has a stream for what it hands on."""
    count = torch.cuda.device_count()
    parts = [layers().to(f"cuda:{i}") for i in range(count)]
    streams = [torch.cuda.Stream(i) for i in range(count)]
    optimizer = torch.optim.AdamW([parameter for part in parts for parameter in part.parameters()])
    for _ in range(3):
        for batch in torch.randn(64, 512, device="cuda:0").chunk(4):
            for i, part in enumerate(parts):
                streams[i].wait_stream(torch.cuda.current_stream(i))
                with torch.cuda.stream(streams[i]):
                    moved = batch.to(f"cuda:{i}", non_blocking=True)
                torch.cuda.current_stream(i).wait_stream(streams[i])
                moved.record_stream(torch.cuda.current_stream(i))
                batch = part(moved)
            batch.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def spawned(rank, count, port):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(count), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    run(ddp)


def spawn():
    import socket

    import torch.multiprocessing as multiprocessing

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    count = torch.cuda.device_count()
    multiprocessing.spawn(spawned, (count, port), nprocs=count)


def run(what):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    what()
    dist.destroy_process_group()


if __name__ == "__main__":
    whole = {"devices": devices, "replicas": replicas, "stages": stages, "spawn": spawn}
    if sys.argv[1] in whole:
        whole[sys.argv[1]]()
    else:
        run({"ddp": ddp, "fsdp": fsdp, "mesh": mesh, "values": values, "polled": polled}[sys.argv[1]])
