"""What an estimate costs: of a built-in model from the shell, of a graph file of a million ops, and beside one step of the
same training by torch on this machine's CPU. The exit code is 1 where a promise about the first two is broken.

    build/python bench/estimate/speed_bench.py [--ops N]"""

import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EBBTIDE = os.environ.get("EBBTIDE_PROGRAM") or str(ROOT / "build" / "ebbtide")
OPS_PER_LAYER = 7
MODEL_SECONDS, MILLION_OPS_SECONDS = 0.1, 15  # of computing, promised
SHAPE = [32, 16, 8, 8]  # of every activation: 128 KiB, so that a million ops fit a GPU of 80 GB


def computed():
    """Seconds that ended children have computed."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds(arguments, times):
    """(of the clock, of the processor): the best of several runs."""
    runs = []
    for _ in range(times):
        begin, before = time.perf_counter(), computed()
        subprocess.run([EBBTIDE, "estimate", "--json", *arguments], check=True, stdout=subprocess.DEVNULL)
        runs.append((time.perf_counter() - begin, computed() - before))
    return min(wall for wall, _ in runs), min(cpu for _, cpu in runs)


class DeepNetwork:
    """A graph file as a capture would write it: convolution, batch norm and an in-place ReLU in each layer, their backward,
    and an update of every weight."""

    def __init__(self, layers):
        self.storages, self.tensors, self.ops = [], [], []
        x = self.new("input", SHAPE, "batch.0")
        done = []
        for i in range(layers):
            done.append(self.forward(i, x))
            x = done[-1][-1]
        self.output = x
        gradient = self.op("ones_like", "backward", "", [x], [SHAPE], {"self": x})[0]
        weights = []
        for layer in reversed(done):
            gradient, weight_gradient = self.backward(layer, gradient)
            weights.append((layer[1], weight_gradient))
        for weight, weight_gradient in weights:
            again = self.view(weight)
            self.ops.append(f'{{"kind": "add_", "phase": "update", "inputs": [{weight}, {weight_gradient}], "outputs": [{again}], '
                            f'"mutated": [{weight}]}}')

    def new(self, kind, shape, name=""):
        size = 4
        for axis in shape:
            size *= axis
        name = f', "name": "{name}"' if name else ""
        self.storages.append(f'{{"kind": "{kind}", "bytes": {size}{name}}}')
        self.tensors.append(f'{{"storage": {len(self.storages) - 1}, "dtype": "float32", "shape": {shape}}}')
        return len(self.tensors) - 1

    def view(self, tensor):
        self.tensors.append(self.tensors[tensor])
        return len(self.tensors) - 1

    def op(self, kind, phase, layer, inputs, outputs, arguments, results=()):
        made = [self.new(result, shape) for shape, result in zip(outputs, results or ["temporary"] * len(outputs))]
        told = ", ".join(f'"{name}": {{"tensor": {value}}}' for name, value in arguments.items())
        self.ops.append(f'{{"kind": "{kind}", "phase": "{phase}", "layer": "{layer}", "inputs": {inputs}, "outputs": {made}, '
                        f'"arguments": {{{told}}}}}')
        return made

    def forward(self, i, x):
        channels, name = SHAPE[1], f"stage{i // 100}.{i % 100}"
        weight = self.new("parameter", [channels, channels, 3, 3], f"{name}.conv.weight")
        scale = self.new("parameter", [channels], f"{name}.norm.weight")
        kept = ["activation"]
        y, = self.op("convolution", "forward", f"{name}.conv", [x, weight], [SHAPE], {"input": x, "weight": weight}, kept)
        normal, mean, deviation = self.op("cudnn_batch_norm", "forward", f"{name}.norm", [y, scale],
                                          [SHAPE, [channels], [channels]], {"input": y, "weight": scale}, kept * 3)
        active = self.view(normal)
        self.ops.append(f'{{"kind": "relu_", "layer": "{name}", "inputs": [{normal}], "outputs": [{active}], '
                        f'"mutated": [{normal}]}}')
        return x, weight, scale, y, mean, deviation, active

    def backward(self, layer, gradient):
        x, weight, scale, y, mean, deviation, active = layer
        gradient, = self.op("threshold_backward", "backward", "", [gradient, active], [SHAPE], {"grad_output": gradient})
        gradient, _ = self.op("cudnn_batch_norm_backward", "backward", "", [gradient, y, scale, mean, deviation],
                              [SHAPE, [SHAPE[1]]], {"grad_output": gradient}, ["temporary", "gradient"])
        return self.op("convolution_backward", "backward", "", [gradient, x, weight], [SHAPE, [SHAPE[1], SHAPE[1], 3, 3]],
                       {"grad_output": gradient, "input": x, "weight": weight}, ["temporary", "gradient"])

    def write(self, path):
        with open(path, "w") as file:
            file.write('{"format": "ebbtide.graph", "version": 1, "name": "deep",\n"meta": {"device": "cuda", "optimizer": "sgd"},\n')
            for name in ("storages", "tensors", "ops"):
                file.write(f'"{name}": [\n' + ",\n".join(getattr(self, name)) + "],\n")
            file.write(f'"outputs": [{self.output}]}}\n')


def step_on_the_cpu(batch):
    sys.path.insert(0, str(ROOT / "python"))
    import torch

    from ebbtide import torch_models

    model, loss_fn, optimizer, (x, target) = torch_models.build("resnet50", batch, optimizer="adam", device="cpu")
    target.zero_()
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss_fn(model(x), target).backward()
        optimizer.step()
        best = min(best, time.perf_counter() - begin)
    return best, torch.get_num_threads()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ops", type=int, default=1_000_000)
    options = parser.parse_args()
    wall, cpu = seconds(["resnet152"], 20)
    kept = cpu <= MODEL_SECONDS
    print(f"estimate resnet152, batch 32: {1000 * wall:.0f} ms from the shell, {1000 * cpu:.0f} ms of it computing (promised: "
          f"{1000 * MODEL_SECONDS:.0f})", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        network = DeepNetwork(options.ops // OPS_PER_LAYER)
        path = os.path.join(folder, "deep.json")
        network.write(path)
        ops, size = len(network.ops), os.path.getsize(path) / 2**20
        del network
        wall, cpu = seconds(["--gpu", "a100-80gb", path], 3)
        promised = MILLION_OPS_SECONDS * ops / 1e6
        kept &= cpu <= promised
        print(f"a graph file of {ops:,} ops, {size:.0f} MiB: {wall:.1f} s, {cpu:.1f} s of it computing (promised: {promised:.3g})", flush=True)
    batch = 4
    ours, _ = seconds(["resnet50", "--batch-size", str(batch), "--optimizer", "adam"], 20)
    real, threads = step_on_the_cpu(batch)
    print(f"resnet50, batch {batch}, adam: {1000 * ours:.0f} ms; one step by torch on {threads} threads {1000 * real:.0f} ms: "
          f"{real / ours:.0f} times as long")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
