"""Ebbtide: GPU memory of deep-learning training, estimated, planned and shared.

torch is imported by the calls that need it, never by `import ebbtide`.
"""


def capture(model, loss_fn, optimizer, example_batch, device=None, inference=False, autocast=None):
    """Captures one whole training step (forward, backward, update) as a graph, without running it.

    `model` is a torch.nn.Module, `optimizer` one of torch.optim's (or None: no update). What the model and `loss_fn` are
    called with follows from `example_batch`:

        (x, ..., y)   out = model(x, ...),  loss = loss_fn(out, y)
        {"x": x, ...} out = model(x=x, ...), loss = loss_fn(out) or loss_fn(out, batch)
        x             out = model(x),       loss = loss_fn(out)

    With `loss_fn` None the loss is out.loss, out["loss"], or out itself where it is one number. `device` ("cpu",
    "cuda") says whose kernels to record; None: those of the model's parameters. With `inference` the model is called
    under torch.no_grad() and that is all: its outputs are the graph's. `autocast`, a torch.dtype, has the model and the loss run under
    torch.autocast of that type and device. Nothing of the model, the optimizer,
    the batch or the random state changes. Returns an ebbtide.capture_step.CapturedStep; raises CaptureError.
    """
    from .capture_step import capture_step

    return capture_step(model, loss_fn, optimizer, example_batch, device, inference, autocast)


__all__ = ["capture"]
