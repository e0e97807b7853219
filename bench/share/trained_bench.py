"""Several trainings in one pool of 1 GiB, for real: do they fit, are their bits those that each has alone, and how fast are they together.

    build/python bench/share/trained_bench.py cpu [MIX ...]       against one after another, in the same run: by one thread, and by all cores
    build/python bench/share/trained_bench.py phantom [MIX ...]   on the phantom GPU with its race checker (starts itself there)
    build/python bench/share/trained_bench.py aborts [N]          one of four jobs is stopped or fails at a random moment, N times

Each job's batch is 90 % of the largest that fits the pool alone, or 97 % of the largest share with which all fit, where that is less. Exits
with 1 where something is not as it should be. Times are medians over interleaved rounds, with the least and the most: jobs together use a thread
each, so the fair rival is one after another with as many threads as there are jobs, up to the cores.
"""

import copy
import json
import os
import pathlib
import random
import statistics
import sys
import threading
import time

import torch
from torch.nn import functional as F
from torch.utils._pytree import tree_map

import ebbtide
from ebbtide import SharedError, native
from ebbtide.capture.step import CaptureOptions, capture_step
from ebbtide.step.plan import PlanOptions, make_plan
from ebbtide.step.profile import profile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from _on_phantom import start_there  # noqa: E402

GIB = 2**30
ROUNDS, ITERATIONS = 3, 3


def resnet18():
    import torchvision

    return torchvision.models.resnet18(weights=None, num_classes=10), F.cross_entropy, (
        lambda batch: (torch.randn(batch, 3, 64, 64), torch.randint(0, 10, (batch,)))), 64


def gpt2():
    import transformers

    config = transformers.GPT2Config(vocab_size=2000, n_layer=4, n_embd=256, n_head=4, n_positions=128, use_cache=False, bos_token_id=0, eos_token_id=0)
    model = transformers.GPT2LMHeadModel(config).train()
    model.loss_type = "ForCausalLM"  # else it warns that it has none

    def batch_of(batch):
        tokens = torch.randint(5, 2000, (batch, 128))
        return {"input_ids": tokens, "labels": tokens.clone()}

    return model, None, batch_of, 16


def lstm():
    words, width, length = 1000, 128, 32
    if torch.cuda.is_available():  # cuDNN's own layer is not captured
        from _lstm_cells import Cells

        model = Cells(words, width)
        loss_fn = lambda scores, target: F.cross_entropy(scores, target.flatten())  # noqa: E731
    else:
        from ebbtide.torch_models import TokenLSTM

        model = TokenLSTM(words, width)
        loss_fn = lambda scores, target: F.cross_entropy(scores.flatten(0, 1), target.flatten())  # noqa: E731

    def batch_of(batch):
        tokens = torch.randint(0, words, (batch, length))
        return tokens, tokens.roll(1, 1)

    return model, loss_fn, batch_of, 128


MIXES = {"resnet18 x 2": (resnet18, resnet18), "resnet18, gpt2": (resnet18, gpt2), "lstm x 3": (lstm, lstm, lstm)}


class Training:
    def __init__(self, make, device, seed):
        torch.manual_seed(seed)
        self.name, self.device, self.seed = make.__name__, device, seed
        self.model, self.loss_fn, self.batch_of, self.guess = make()
        self.model = self.model.to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self._needs = {}
        self.step = self.batch = None

    def data(self, batch):
        return tree_map(lambda tensor: tensor.to(self.device), self.batch_of(batch))

    def needs(self, batch):
        """Bytes of its state and of all else."""
        if batch not in self._needs:
            captured = capture_step(self.model, self.loss_fn, self.optimizer, self.data(batch), CaptureOptions(device=self.device))
            graph = profile(captured.graph, runs=1, device=self.device).graph
            planned = make_plan(graph, PlanOptions("1000%", "none", 12e9))
            arranger = native.SharedArranger(GIB, 16, 12e9, "", 1.0, 1)
            needs = arranger.within((self.name, planned.graph, planned.plan, "none", 1, 0), 1000 * GIB)
            self._needs[batch] = needs["state_bytes"], needs["height_bytes"]
        return self._needs[batch]

    def largest(self, fits):
        """The largest batch for which fits(state, height); both grow with it, about in proportion."""
        low, high, guess = 0, None, self.guess
        while high is None or high - low > max(1, low // 50):
            if fits(*self.needs(guess)):
                low = guess
            else:
                high = guess
            state, height = self.needs(guess)
            room = GIB - state
            aim = int(guess * room / height * (0.995 if fits(state, height) else 0.985))
            guess = aim if low < aim and (high is None or aim < high) else (low + high) // 2 if high else 2 * low
            if guess in self._needs and guess in (low, high):
                break
        return low

    def prepare(self, batch):
        self.size, self.batch = batch, self.data(batch)
        self.plain, self.plain_optimizer = copy.deepcopy((self.model, self.optimizer))

    def make_step(self, plain=False):
        parts = (self.plain, self.loss_fn, self.plain_optimizer) if plain else (self.model, self.loss_fn, self.optimizer)
        return ebbtide.step(*parts, self.batch, budget=GIB, policy="none" if plain else "home", device=self.device)

    def spare_step(self):
        """Of a model that nobody compares."""
        model, optimizer = copy.deepcopy((self.plain, self.plain_optimizer))
        return ebbtide.step(model, self.loss_fn, optimizer, self.batch, budget=GIB, policy="none", device=self.device)

    def same(self):
        pairs = [*zip(self.model.state_dict().values(), self.plain.state_dict().values())]
        states = self.optimizer.state_dict()["state"], self.plain_optimizer.state_dict()["state"]
        pairs += [(a, states[1][n][key]) for n, state in states[0].items() for key, a in state.items()]
        return all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in pairs)


def sizes_of(trainings):
    """(the batch of each, its share of what is the largest alone, and the largest share that all could have)."""
    for training in trainings:
        alike = next((t for t in trainings if t.name == training.name and t is not training and hasattr(t, "solo")), None)
        training.solo = alike.solo if alike else training.largest(lambda state, height: state + height <= GIB)
        if alike:
            training._needs = alike._needs
    for per_mille in range(1000, 0, -1):  # needs are about in proportion to the batch
        states, heights = 0, []
        for training in trainings:
            known = max(training._needs, key=lambda batch: -abs(batch - training.solo))
            state, height = training._needs[known]
            states += state
            heights.append(height * training.solo * per_mille / 1000 / known)
        if states + max(heights) <= GIB:
            break
    share = 0.9 if per_mille >= 900 else 0.97 * per_mille / 1000
    return [int(share * training.solo) for training in trainings], share, per_mille / 1000


def run_mix(name, makes, device):
    trainings = [Training(make, device, seed) for seed, make in enumerate(makes)]
    batches, share, ceiling = sizes_of(trainings)
    for training, batch in zip(trainings, batches):
        training.prepare(batch)
    seconds, expected = {"alone": [], "all cores": [], "together": []}, []
    cores = min(len(trainings), os.cpu_count() or 1)
    spare_steps = [training.spare_step() for training in trainings if device == "cpu"]
    plain_steps = [training.make_step(plain=True) for training in trainings]
    states = []
    with ebbtide.Shared(capacity=GIB) as gpu:
        for training in trainings:
            step = training.make_step()
            torch.manual_seed(training.seed)
            training.job = gpu.add(step)
            torch.manual_seed(training.seed)
            states.append(torch.get_rng_state())
            expected.append([])

        def alone(steps):
            for number, step in enumerate(plain_steps):
                torch.set_rng_state(states[number])
                expected[number] += [step(trainings[number].batch).item() for _ in range(steps)]
                states[number] = torch.get_rng_state()

        def with_all_cores(steps):
            """One after another on models of their own: the number of threads changes the last bits."""
            torch.set_num_threads(cores)
            for training, step in zip(trainings, spare_steps):
                for _ in range(steps):
                    step(training.batch)
            torch.set_num_threads(1)

        def timed(what, run):
            started = time.perf_counter()
            run()
            seconds[what].append(time.perf_counter() - started)

        gpu.run(iterations=1)  # memory that is touched for the first time
        alone(1)
        for _ in range(ROUNDS):  # in turn, as other work on the machine comes and goes
            timed("alone", lambda: alone(ITERATIONS))
            if device == "cpu":
                timed("all cores", lambda: with_all_cores(ITERATIONS))
            timed("together", lambda: gpu.run(iterations=ITERATIONS))
        report, pool = gpu.report().to_dict(), gpu.pool()
    for step in plain_steps + spare_steps:
        step.close()
    fields = {
        "mix": name, "device": device, "batches": batches, "share_of_solo": round(share, 3), "ceiling": ceiling, "solo": [t.solo for t in trainings],
        "capacity_bytes": GIB, "peak_bytes": report["peak_bytes"], "held_after": pool.held, "groups": report["groups"],
        "overlapped_groups": report["overlapped_groups"],
    }
    middle = {what: statistics.median(times) for what, times in seconds.items() if times}
    fields["seconds"] = {what: [round(f(seconds[what]), 3) for f in (min, statistics.median, max)] for what in middle}
    fields |= {f"{what} over together": round(middle[what] / middle["together"], 3) for what in middle if what != "together"}
    if device == "cpu":
        fields["same_bits"] = [t.job.losses == losses and t.same() for t, losses in zip(trainings, expected)]
        right = all(fields["same_bits"])
    else:
        import ctypes

        fields["races"], fields["waits"] = ctypes.CDLL(None).ebbtide_phantom_race_count(), pool.waits
        right = fields["races"] == 0
    return fields, right and pool.held == 0 and report["peak_bytes"] <= GIB


def mixes(names, device):
    right = True
    for name in names or MIXES:
        fields, good = run_mix(name, MIXES[name], device)
        right = right and good
        print(json.dumps(fields), flush=True)
    return right


def aborts(count):
    from support import run_models

    trainings = []
    for seed, name in enumerate(("cnn", "cnn", "lstm", "cnn")):
        torch.manual_seed(seed)
        model, loss_fn, batch = run_models.ALL[name]()
        training = Training.__new__(Training)
        training.model, training.loss_fn, training.batch, training.device, training.seed = model, loss_fn, batch, "cpu", seed
        training.optimizer = torch.optim.Adam(model.parameters())
        training.plain, training.plain_optimizer = copy.deepcopy((model, training.optimizer))
        training.step, training.losses = training.make_step(), []
        trainings.append(training)
    dice = random.Random(7)
    counts = {"stopped": 0, "failed": 0, "whole": 0, "held_wrong": 0}
    with ebbtide.Shared(capacity="3MiB") as gpu:
        for training in trainings:
            torch.manual_seed(training.seed)
            training.job = gpu.add(training.step)
        gpu.run(iterations=1)
        while counts["stopped"] + counts["failed"] < count:
            victim = dice.choice(trainings)
            timer = None
            if dice.random() < 0.5 and victim.job.execution is not None:
                victim.job.execution.engine.fail_at(dice.randrange(1, 200))
            else:
                timer = threading.Timer(dice.random() * 0.03, victim.job.stop)
                timer.start()
            try:
                gpu.run(iterations=2)
                counts["stopped" if victim.job.stopped else "whole"] += 1
            except SharedError as error:
                counts["failed"] += 1
                assert error.jobs == [victim.job], error
            if timer:
                timer.join()
            victim.job.execution.engine.fail_at(0)
            held = sum(-(-job.execution.engine.state_bytes // 512) * 512 for job in gpu.jobs if job.joined)
            counts["held_wrong"] += abs(gpu.held_bytes - held) > 512 * len(gpu.jobs)
            if victim.job not in gpu.jobs:
                victim.losses += victim.job.losses
                torch.set_rng_state(torch.frombuffer(bytearray(victim.job._random), dtype=torch.uint8))
                victim.job = gpu.add(victim.step)
        pool = gpu.pool()
    counts["held_after"] = pool.held
    same = []
    for training in trainings:
        losses = training.losses + training.job.losses
        step = training.make_step(plain=True)
        torch.manual_seed(training.seed)
        same.append(losses == [step(training.batch).item() for _ in losses] and training.same())
    counts |= {"aborts": counts["stopped"] + counts["failed"], "same_bits": same, "steps": [len(t.losses) + t.job.iterations for t in trainings]}
    print(json.dumps(counts))
    return all(same) and counts["held_after"] == counts["held_wrong"] == 0


def main():
    torch.set_num_threads(1)
    what, rest = (sys.argv[1] if len(sys.argv) > 1 else "cpu"), sys.argv[2:]
    if what == "aborts":
        right = aborts(int(rest[0]) if rest else 1000)
    else:
        if what == "phantom":
            start_there(kernel_us=100)
        right = mixes(rest, "cuda:0" if what == "phantom" else "cpu")
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
