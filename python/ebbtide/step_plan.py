"""Plans for captured steps, from the program `ebbtide plan`, kept on disk by what they were asked for."""

import hashlib
import json
import os
import subprocess
import tempfile

from .__main__ import find_program
from .step_arguments import shown_bytes
from .step_cache import read_json, write_json
from .torch_library import cache_folder


class BudgetError(ValueError):
    """No plan keeps the budget. `minimum_budget_bytes`: the smallest found to work."""

    def __init__(self, message, minimum):
        super().__init__(message)
        self.minimum_budget_bytes = minimum


class Planned:
    """`text` is the plan file, `said` what `ebbtide plan --json` prints, `graph` the graph's text."""

    def __init__(self, text, said, graph):
        self.text, self.said, self.graph = text, said, graph
        self.shared_needs = {}  # see sharing_job.py


def make_plan(graph, budget, policy, link, gpu=None, swap_state=False):
    """`budget`: bytes or a text as --budget takes it. `link`: bytes per second. `gpu`: whose times count where the graph has none."""
    text = json.dumps(graph, separators=(",", ":"), allow_nan=False)
    words = ["--budget", str(budget), "--policy", policy, "--link", f"{int(link)}B/s", "--no-bound", "--seed", "1"]
    if swap_state:
        words.append("--swap-state")
    if gpu is not None:
        words += ["--gpu", gpu]
    program = find_program()
    if program is None:
        raise RuntimeError("the program `ebbtide` is not beside the package; install the package again")
    key = hashlib.sha256(json.dumps([text, words, os.path.getmtime(program)]).encode()).hexdigest()[:32]
    path = cache_folder() / "plans" / f"{key}.json"
    kept = read_json(path)
    if kept is None:
        kept = _ask(program, text, words)
        write_json(path, kept)
    said = kept["said"]
    if not said["feasible"]:
        smallest = said["minimum_budget_bytes"]
        raise BudgetError(
            f"budget {shown_bytes(said['budget_bytes'])}: {policy} finds no plan for {graph['name']}; the smallest budget that works is "
            f"{shown_bytes(smallest)}" + (" (policy home)" if policy != "home" else "")
            + f", without a plan the step takes {shown_bytes(said['plain_peak_bytes'])}", smallest,
        )
    return Planned(kept["plan"], said, text)


def _ask(program, text, words):
    with tempfile.TemporaryDirectory(prefix="ebbtide-") as folder:
        with open(os.path.join(folder, "step.json"), "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([program, "plan", "step.json", *words, "--json", "-q", "-o", "plan.json"], cwd=folder,
                              env={"NO_COLOR": "1"} | dict(os.environ), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode not in (0, 1):
            lines = [line for line in done.stderr.splitlines() if line.startswith("ebbtide")] or done.stderr.splitlines()[-1:]
            raise ValueError(lines[-1].partition(": ")[2] if lines else f"the program ended with code {done.returncode}")
        plan = None
        if done.returncode == 0:
            with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
                plan = file.read()
        return {"said": json.loads(done.stdout), "plan": plan}
