"""Runs a captured graph on real tensors, op by op, from nothing but what the graph file holds: the reference that the
tests compare with plain PyTorch."""

import copy

import torch

SIZE_UNKNOWN = {"mkldnn_rnn_layer"}  # oneDNN decides how large its workspace is when it runs


def memory_of(captured):
    """Storage number -> real tensor, for all that exists before the step; copies, but for the batch."""
    memory = {}
    for number, source in captured.sources.items():
        storage = captured.graph["storages"][number]
        if source.tensor is None:
            dtype = next(t["dtype"] for t in captured.graph["tensors"] if t["storage"] == number)
            dtype = getattr(torch, dtype)
            memory[number] = torch.full((storage["bytes"] // dtype.itemsize,), source.value, dtype=dtype)
        else:
            memory[number] = source.tensor if source.kind == "input" else source.tensor.detach().clone()
    return memory


class Replay:
    """`check_writes`: every op changes the inputs it calls mutated at most, and no other."""

    def __init__(self, graph, memory, check_writes=False):
        self._graph, self._memory, self._check_writes = graph, memory, check_writes
        self._produced = {t for op in graph["ops"] for t in op["outputs"]}

    def step(self, scalars):
        """One step; returns the graph's outputs."""
        graph = self._graph
        values = {n: self._view(t) for n, t in enumerate(graph["tensors"]) if n not in self._produced}
        for place, op in enumerate(graph["ops"]):
            function = function_of(op["schema"])
            given = {a.name: decode(op["arguments"][a.name], a, values, scalars) for a in function._schema.arguments}
            args = [given[a.name] for a in function._schema.arguments if not a.kwarg_only]
            kwargs = {a.name: given[a.name] for a in function._schema.arguments if a.kwarg_only}
            before = {n: values[n].clone() for n in op["inputs"]} if self._check_writes else {}
            with torch.set_grad_enabled(op["phase"] == "forward"), torch._C._AutoDispatchBelowAutograd():
                result = function(*args, **kwargs)
            results = [r for r in (result if isinstance(result, (list, tuple)) else [result]) if isinstance(r, torch.Tensor)]
            where = f"op {place} {op['kind']}"
            assert len(results) == len(op["outputs"]), f"{where}: {len(results)} results"
            for number, real in zip(op["outputs"], results):
                recorded = graph["tensors"][number]
                assert list(real.shape) == recorded["shape"] or op["kind"] in SIZE_UNKNOWN, where
                assert str(real.dtype) == "torch." + recorded["dtype"], where
                values[number] = real
            mutated = {graph["tensors"][n]["storage"] for n in op.get("mutated", [])}
            for number, old in before.items():
                if graph["tensors"][number]["storage"] not in mutated:
                    assert same_bits(old, values[number]), f"{where} changes tensor {number} and does not say so"
        return [values[n] for n in graph["outputs"]]

    def _view(self, tensor):
        shape = tensor["shape"]
        stride = tensor.get("stride") or torch.empty(shape, device="meta").stride()
        return self._memory[tensor["storage"]].as_strided(shape, stride, tensor.get("offset", 0))


def function_of(schema):
    name, overload = schema.rsplit(".", 1)
    namespace, packet = name.split("::")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def decode(value, argument, values, scalars):
    """The Python value of an argument in the file."""
    if isinstance(value, list):
        return [decode(v, argument, values, scalars) for v in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    is_number = "Tensor" not in str(argument.real_type)  # a tensor in a number's place is read when the op runs
    if kind == "tensor":
        return values[content].item() if is_number else values[content]
    if kind == "tensors":
        return [None if t is None else values[t].item() if is_number else values[t] for t in content]
    if kind == "scalar":
        return scalars[content]
    if kind == "scalars":
        return [scalars[s] for s in content]
    if kind == "float":
        return float(content)
    if kind == "device":
        return torch.device(content)
    if kind == "memory_format":
        return getattr(torch, content if content.startswith("channels") else content + "_format")
    return getattr(torch, content)  # a dtype or a layout


def same_bits(a, b):
    """Equal to the last bit: signs of zeros and NaNs included."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.numel():
        return True
    a, b = a.contiguous().view(-1), b.contiguous().view(-1)
    if a.dtype.is_floating_point:
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[a.dtype.itemsize]
        a, b = a.view(bits), b.view(bits)
    return torch.equal(a, b)


def loss_of(model, loss_fn, batch):
    """What a user's training loop computes."""
    if isinstance(batch, dict):
        return model(**batch).loss
    return loss_fn(model(*batch[:-1]), batch[-1])


def assert_trains_alike(capture, model, loss_fn, make_optimizer, batch, steps, check_writes=False, before_step=None):
    """Trains `model` by its captured graph and, from the same start, by plain PyTorch, and compares everything.

    `before_step(optimizer, step)` may change hyper-parameters, as a schedule does.
    """
    plain = copy.deepcopy(model)
    optimizer, plain_optimizer = make_optimizer(model.parameters()), make_optimizer(plain.parameters())
    captured = capture(model, loss_fn, optimizer, batch)
    memory = memory_of(captured)
    replay = Replay(captured.graph, memory, check_writes)
    losses, plain_losses = [], []

    torch.manual_seed(7)
    for step in range(steps):
        if before_step is not None:
            before_step(plain_optimizer, step)
        plain_optimizer.zero_grad()
        loss = loss_of(plain, loss_fn, batch)
        loss.backward()
        plain_optimizer.step()
        plain_losses.append(loss.detach())
    plain_random_state = torch.get_rng_state()

    torch.manual_seed(7)
    for step in range(steps):
        if before_step is not None:
            before_step(optimizer, step)
        taken = [step] * len(optimizer.param_groups)
        losses += [loss.clone() for loss in replay.step(captured.update.scalar_values(taken))]

    assert all(map(same_bits, losses, plain_losses)), (losses, plain_losses)
    assert torch.equal(torch.get_rng_state(), plain_random_state)
    by_name = {source.name: memory[number] for number, source in captured.sources.items()}
    for name, tensor in [*plain.named_parameters(), *plain.named_buffers()]:
        assert same_bits(tensor.detach(), by_name[name]), name
    for name, parameter in plain.named_parameters():
        for state, tensor in plain_optimizer.state.get(parameter, {}).items():
            if state != "step":  # counted on the host
                got = by_name[f"{state}.{name}"].as_strided(tensor.shape, tensor.stride())
                assert same_bits(tensor, got), f"{state}.{name}"
    return captured
