"""What the Python package offers, as one JSON object: signatures of what it exports, and the keys of every report. Run by
scripts/compare-answers with the Python of each build."""

import inspect
import json
import sys

import torch

import ebbtide


def keys(value):
    """The shape of a report: its keys, and the types of what they hold."""
    if isinstance(value, dict):
        return {name: keys(each) for name, each in sorted(value.items())}
    if isinstance(value, list):
        return [keys(value[0])] if value else []
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def parameters(function):
    return {name: "required" if p.default is p.empty else repr(p.default) for name, p in inspect.signature(function).parameters.items()}


def public(cls):
    return sorted(name for name in dir(cls) if not name.startswith("_"))


def main():
    out = {"signatures": {name: parameters(getattr(ebbtide, name)) for name in
                          ("capture", "estimate", "step", "budget", "use_tide", "tide_pool")}}
    torch.manual_seed(0)
    torch.set_num_threads(1)

    def parts():
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
        return model, torch.nn.functional.mse_loss, torch.optim.Adam(model.parameters()), (torch.randn(16, 32), torch.randn(16, 8))

    model, loss, optimizer, batch = parts()
    out["capture"] = public(ebbtide.capture(model, loss, optimizer, batch))
    estimate = ebbtide.estimate(model, batch[0], optimizer, loss_fn=loss, target=batch[1])
    out["estimate"] = keys(estimate.to_dict())
    out["estimate.numbers"] = {name: estimate.to_dict()[name] for name in ("peak_reserved_bytes", "total_bytes", "breakdown")}
    step = ebbtide.step(model, loss, optimizer, batch, "100%")
    losses = [step(*batch).item() for _ in range(3)]
    out["step"] = public(type(step))
    out["step.losses"] = losses
    out["step.report"] = keys(step.report().to_dict())
    step.close()
    model, loss, optimizer, batch = parts()
    compiled = torch.compile(model, backend="ebbtide", options={"budget": "100%"})
    loss(compiled(batch[0]), batch[1]).backward()
    with ebbtide.budget("1GiB", device="cpu") as budget:
        loss(model(batch[0]), batch[1]).backward()
    out["budget"] = public(type(budget))
    with ebbtide.Shared(capacity="64MiB") as shared:
        out["Shared"] = public(type(shared))
        for _ in range(2):
            shared.add(ebbtide.step(*parts(), "100%"))
        out["jobs"] = public(type(shared.run(iterations=2)[0]))
        out["Shared.report"] = keys(shared.report().to_dict())
    json.dump(out, sys.stdout)


if __name__ == "__main__":
    main()
