"""python -m ebbtide.commands.train train|profile MODEL ...: what `ebbtide train` and `ebbtide profile` start.

Exit 0; 3 where no plan keeps the budget; 2 with one line on standard error.
"""

import contextlib
import copy
import json
import os
import sys
import time
import warnings

from .. import progress
from ..capture.errors import one_line
from ..errors import CaptureError
from ..files import write_text
from .script import SIZES, Parser, call_script, end, positive, quiet_libraries, widths

NO_PLAN = 3


def main(arguments=None):
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            parts, name = _build(options)
            parts = _on_device(options, parts)
            return _train(options, parts, name) if options.verb == "train" else _profile(options, parts, name)
    except (CaptureError, ValueError) as error:
        print(f"ebbtide: {str(error).splitlines()[0]}", file=sys.stderr)
        return 2


def _parser():
    parser = Parser(prog="ebbtide train")
    parser.add_argument("verb", choices=("train", "profile"))
    parser.add_argument("model")
    parser.add_argument("--budget")
    parser.add_argument("--steps", type=positive, default=5)
    parser.add_argument("--policy", default="home")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--link")
    parser.add_argument("--accumulate", type=positive, default=1)
    parser.add_argument("--swap-state", action="store_true")
    parser.add_argument("--check", action="store_true")
    for size in SIZES:
        parser.add_argument("--" + size.replace("_", "-"), type=positive)
    parser.add_argument("--widths", type=widths)
    parser.add_argument("--optimizer")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("-o", "--output")
    parser.add_argument("-q", "--quiet", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=positive)
    return parser


def _build(options):
    """(model, loss_fn, optimizer, batch), and the name of the model."""
    try:
        import torch
    except ImportError as error:
        raise CaptureError(f"{sys.executable}: {one_line(error)}; expected PyTorch to be installed") from error
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    if not options.verbose:
        quiet_libraries()
    sizes = {size: getattr(options, size) for size in SIZES if getattr(options, size) is not None}
    script, separator, function = options.model.rpartition(":")
    with contextlib.redirect_stdout(sys.stderr):  # what the script prints is not our data
        if separator:
            parts, _ = call_script(script, function, sizes, {"optimizer": options.optimizer} if options.optimizer else {})
            return parts, f"{os.path.basename(script)}:{function}"
        from .. import torch_models

        model, loss_fn, optimizer, batch = torch_models.build(
            options.model, **sizes, widths=options.widths or (), optimizer=options.optimizer or "sgd", device="cpu")
    for tensor in batch.values() if isinstance(batch, dict) else batch:
        if tensor.dtype.is_floating_point:
            tensor.normal_()
        else:
            tensor.random_(0, 2)  # labels and words that every model has
    return (model, loss_fn, optimizer, batch), options.model


def _on_device(options, parts):
    from torch.utils._pytree import tree_map_only

    from ..arguments import device_of

    device = device_of(options.device)
    if device == "cpu":
        return parts
    import torch

    model, loss_fn, optimizer, batch = parts
    return model.to(device), loss_fn, optimizer, tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), batch)


def _train(options, parts, name):
    import torch

    from ..errors import BudgetError
    from ..step.step import Step, StepOptions

    model, loss_fn, optimizer, batch = parts
    plain = None
    if options.check:
        plain = copy.deepcopy((model, optimizer))
    try:
        step = Step(model, loss_fn, optimizer, batch, StepOptions(
            budget=options.budget, policy=options.policy, link=options.link, device=options.device,
            accumulate=options.accumulate, swap_state=options.swap_state, progress=progress.reporter(options.quiet)))
    except BudgetError as error:
        if options.json:
            print(json.dumps({"schema_version": 1, "command": "train", "model": name, "feasible": False,
                              "minimum_budget_bytes": error.minimum_budget_bytes, "message": str(error)}))
        else:
            print(f"{name}: {error}")
        return NO_PLAN
    call = (lambda: step(batch)) if isinstance(batch, dict) else (lambda: step(*batch)) if isinstance(batch, (tuple, list)) else (lambda: step(batch))
    torch.manual_seed(options.seed)
    losses, seconds = [], []
    for number in range(options.steps):
        started = time.perf_counter()
        losses.append(call().item())
        seconds.append(time.perf_counter() - started)
        if not options.json and not options.quiet:
            print(f"step {number + 1:>3}   loss {losses[-1]:<12.6g} {seconds[-1] * 1e3:9.1f} ms", flush=True)
    report = step.report()
    fields = {"schema_version": 1, "command": "train", "model": name, "feasible": True} | report.to_dict() | {"losses": losses}
    text = repr(report)
    if options.check:
        fields["same_bits"] = same = _same(options, model, losses, *plain, loss_fn, batch)
        text += "plain PyTorch: the same losses, parameters and buffers, to the last bit\n" if same else "plain PyTorch: OTHER NUMBERS\n"
    if options.json:
        print(json.dumps(fields))
    else:
        print(("" if options.quiet else "\n") + text, end="")
    if options.output:
        write_text(options.output, json.dumps(fields, indent=2) + "\n" if options.output.endswith(".json") else text)
    return 0


def _same(options, model, losses, plain, optimizer, loss_fn, batch):
    """Trains `plain`, a copy of the model, by plain PyTorch. Whether losses and state are the same bits."""
    import torch

    from ..capture.inputs import run_forward
    from ..capture.layers import Layers

    torch.manual_seed(options.seed)
    expected = []
    for number in range(options.steps):
        _, loss = run_forward(plain, loss_fn, batch, Layers(plain))
        loss.backward()
        expected.append(loss.item())
        if number % options.accumulate == options.accumulate - 1:
            optimizer.step()
            optimizer.zero_grad()
    def bits(tensor):
        return tensor.detach().reshape(-1).view(torch.uint8)

    pairs = zip(model.state_dict().values(), plain.state_dict().values())
    return losses == expected and all(torch.equal(bits(a), bits(b)) for a, b in pairs)


def _profile(options, parts, name):
    from ..capture.file import write_graph
    from ..step.step import Step, StepOptions

    model, loss_fn, optimizer, batch = parts
    step = Step(model, loss_fn, optimizer, batch, StepOptions(
        device=options.device, measure="again", progress=progress.reporter(options.quiet)))
    graph = next(iter(step._plans.values())).graph
    graph["name"] = name
    if options.output:
        write_graph(graph, options.output)
    timed = sorted(((op["time_ns"], number, op) for number, op in enumerate(graph["ops"]) if "time_ns" in op), key=lambda t: (-t[0], t[1]))
    total = sum(time for time, _, _ in timed)
    largest = max((op.get("workspace", 0) for op in graph["ops"]), default=0)
    if options.json:
        print(json.dumps({"schema_version": 1, "command": "profile", "model": name, "ops": len(graph["ops"]), "time_ns": total,
                          "largest_workspace_bytes": largest,
                          "slowest": [{"op": number, "kind": op["kind"], "layer": op.get("layer", ""), "phase": op["phase"], "time_ns": time,
                                       "workspace_bytes": op.get("workspace", 0)} for time, number, op in timed[:20]]}))
        return 0
    if options.quiet:
        return 0
    print(f"{name}: {len(graph['ops'])} ops, {total / 1e6:.2f} ms, largest workspace {largest / 2**20:.2f} MiB\n")
    print(f"{'slowest ops':<28} {'layer':<32} {'phase':<9} {'time':>11} {'share':>7}")
    for time_ns, _, op in timed[:15]:
        print(f"{op['kind'][:28]:<28} {op.get('layer', '')[:32]:<32} {op['phase']:<9} {time_ns / 1e6:8.3f} ms {time_ns / total:7.1%}")
    return 0


if __name__ == "__main__":
    end(main())
