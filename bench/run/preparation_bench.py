"""How long ebbtide.step and ebbtide.estimate take before anything is trained, phase by phase, on an MLP, a ResNet-50 and a GPT-2.

    build/python bench/run/preparation_bench.py [--models mlp,resnet50,gpt2] [--budget 90%]

What is kept from run to run goes to a folder of its own, so that "first" finds nothing there and "again", the same call a second time,
finds all of it. It runs with every build since the package has ebbtide.step, so that two can be compared.
"""

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import tempfile
import time

PHASES = ("capture", "measure", "plan", "engine", "estimate")


def module_of(*names):
    """The first that there is: modules have other names in older builds."""
    for name in names:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise ModuleNotFoundError(names[0])


class Clock:
    """Seconds in functions that stand for phases; those within others count for the outer one alone."""

    def __init__(self):
        self.seconds, self._inside = dict.fromkeys(PHASES, 0.0), False

    def watch(self, module, function, phase):
        original = getattr(module, function)

        def timed(*args, **kwargs):
            if self._inside:
                return original(*args, **kwargs)
            self._inside, started = True, time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self._inside = False
                self.seconds[phase] += time.perf_counter() - started

        setattr(module, function, timed)

    def run(self, call):
        """What `call` gives, and the seconds of each phase and of all."""
        self.seconds.update(dict.fromkeys(PHASES, 0.0))
        started = time.perf_counter()
        made = call()
        return made, dict(self.seconds) | {"total": time.perf_counter() - started}


def build(name):
    """(model, loss_fn, inputs, target) small enough for a CPU, of the real architecture."""
    import torch

    torch.manual_seed(0)
    if name == "mlp":
        layers = [torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)]
        return torch.nn.Sequential(*layers), torch.nn.functional.cross_entropy, torch.randn(128, 784), torch.randint(0, 10, (128,))
    if name == "resnet50":
        import torchvision

        return (torchvision.models.resnet50(num_classes=10), torch.nn.functional.cross_entropy, torch.randn(4, 3, 64, 64),
                torch.randint(0, 10, (4,)))
    import transformers

    config = transformers.GPT2Config(n_layer=12, n_embd=96, n_head=4, vocab_size=1000, n_positions=64)
    tokens = torch.randint(0, 1000, (2, 32))
    return transformers.GPT2LMHeadModel(config), None, {"input_ids": tokens, "labels": tokens}, None


def row(name, call, when, seconds):
    cells = "".join(f"{seconds[phase]:10.3f}" if seconds[phase] else f"{'':10}" for phase in (*PHASES, "total"))
    print(f"{name:10} {call:10} {when:8}{cells}", flush=True)


def captured_estimate(name, graph):
    """Of a graph that was captured: in process where the build can, else by the program."""
    import ebbtide

    native = getattr(importlib.import_module("ebbtide"), "native", None)
    with contextlib.suppress(ModuleNotFoundError):
        native = importlib.import_module("ebbtide.native")
    if native is not None and hasattr(native, "estimate"):
        value = native.Graph(json.dumps(graph))
        native.estimate(value)
        started = time.perf_counter()
        native.estimate(value)
        return time.perf_counter() - started, "in process"
    program = importlib.import_module("ebbtide.__main__").find_program()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "step.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(graph, file)
        started = time.perf_counter()
        subprocess.run([program, "estimate", path, "--json", "-q"], stdout=subprocess.DEVNULL)
        del ebbtide
        return time.perf_counter() - started, "by the program"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default="mlp,resnet50,gpt2")
    parser.add_argument("--budget", default="90%")
    options = parser.parse_args()
    import torch

    import ebbtide

    clock = Clock()
    step, estimate = module_of("ebbtide.step.step", "ebbtide.stepping"), module_of("ebbtide.estimate.estimate", "ebbtide.estimation")
    for function, phase in (("capture_step", "capture"), ("profile", "measure"), ("make_plan", "plan"), ("make_engine", "engine")):
        clock.watch(step, function, phase)
    clock.watch(module_of("ebbtide.step.prepared", "ebbtide.stepping"), "make_engine", "engine")
    in_process = hasattr(estimate, "native")
    clock.watch(estimate, "_capture_on_phantom" if in_process else "_capture_in_child", "capture")
    clock.watch(estimate, "_capture_here", "capture")
    clock.watch(estimate.native if in_process else estimate, "estimate" if in_process else "Estimate", "estimate")
    print("seconds" + " " * 23 + "".join(f"{phase:>10}" for phase in (*PHASES, "total")))
    for name in options.models.split(","):
        with tempfile.TemporaryDirectory() as cache:
            os.environ["EBBTIDE_CACHE"] = cache
            model, loss_fn, inputs, target = build(name)
            optimizer = torch.optim.Adam(model.parameters())
            batch = inputs if target is None else (inputs, target)
            for when in ("first", "again"):
                made, seconds = clock.run(lambda: ebbtide.step(model, loss_fn, optimizer, batch, options.budget))
                made.close()
                row(name, "step", when, seconds)
            for when in ("first", "again"):
                _, seconds = clock.run(lambda: ebbtide.estimate(model, inputs, optimizer, loss_fn=loss_fn, target=target))
                row(name, "estimate", when, seconds)
            taken, how = captured_estimate(name, ebbtide.capture(model, loss_fn, optimizer, batch).graph)
            print(f"{name:10} estimate of the captured graph, {how}: {taken * 1e3:.1f} ms", flush=True)


if __name__ == "__main__":
    main()
