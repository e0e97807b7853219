"""What torch's rules for fakes lack of CUDA's kernels: weights of recurrent networks that cuDNN packs, and results whose shape depends on numbers that
the program has on the host (lengths of labels)."""

import contextlib

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..errors import CaptureError
from .scratch import on_phantom

aten = torch.ops.aten


@contextlib.contextmanager
def calls_on_fakes():
    """Inside, recurrent networks do not move their weights into one block: fakes have no memory to move (that they share a block is what an
    estimate knows of _cudnn_rnn). And CTC loss does not look at the contents of its lengths."""
    own = torch.nn.RNNBase.flatten_parameters, torch.ctc_loss
    torch.nn.RNNBase.flatten_parameters, torch.ctc_loss = lambda self: None, _whole_ctc_loss
    try:
        yield
    finally:
        torch.nn.RNNBase.flatten_parameters, torch.ctc_loss = own


def _whole_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=1, zero_infinity=False):
    """As torch composes it. `reduction`: none, mean, sum."""
    losses, _ = aten._ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    if zero_infinity:
        losses = torch.where(losses == float("inf"), 0.0, losses)
    if reduction == 1:
        lengths = target_lengths if isinstance(target_lengths, torch.Tensor) else torch.tensor(target_lengths)
        return (losses / lengths.to(device=losses.device, dtype=losses.dtype).clamp_min(1)).mean()
    return losses.sum() if reduction == 2 else losses


def _ctc_loss(known, log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    """The losses, and the sums over paths: a row for each step, a column for each label and the blanks around it."""
    batch = log_probs.shape[1] if log_probs.dim() == 3 else 1
    longest = _longest(known, targets, target_lengths)
    return log_probs.new_empty(batch), log_probs.new_empty(batch, log_probs.shape[0], 2 * longest + 1)


def _longest(known, targets, lengths):
    """The longest label; where its length depends on data, as long as there is room for."""
    if not isinstance(lengths, torch.Tensor):
        return max(lengths, default=0)
    value = known.of(lengths)
    if value is not None:
        with _disable_current_modes():
            return int(value.max()) if value.numel() else 0
    if targets.dim() == 2:
        return targets.shape[1]
    raise CaptureError("CTC loss of labels in one row, whose lengths depend on data; expected labels of shape (batch, longest), or lengths that "
                       "the program makes of numbers")


def _ctc_loss_backward(_known, _grad, log_probs, *_rest, **_kwargs):
    return torch.empty_like(log_probs)


def _cudnn_rnn(known, input, weight, weight_stride0, weight_buf, hx, cx, *rest, **kwargs):
    """Torch's rule makes no reserve, so the call is made for what it gives: where there is a phantom GPU, no kernel runs; on a real one a step is
    wasted. The weights' block is among the results, and is the parameters' own."""
    def real(value):
        if isinstance(value, torch.Tensor):
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
        return [real(v) for v in value] if isinstance(value, (list, tuple)) and any(isinstance(v, torch.Tensor) for v in value) else value

    rest = list(rest)
    with _disable_current_modes(), torch.no_grad():
        dropout = rest[5] if rest[6] else 0.0  # mode, hidden_size, proj_size, num_layers, batch_first, dropout, train, bidirectional, ...
        if dropout > 0:
            rest[9] = aten._cudnn_init_dropout_state(dropout, True, 0, dtype=torch.uint8, device=input.device)
        made = aten._cudnn_rnn(*map(real, (input, weight, weight_stride0, None, hx, cx)), *rest, **kwargs)
        forms = [(tuple(t.shape), t.stride(), t.dtype) for t in made[:4]]
    results = [torch.empty_strided(shape, stride, dtype=dtype, device=input.device) for shape, stride, dtype in forms]
    return *results, torch.empty(0, dtype=input.dtype, device=input.device)


def _cudnn_rnn_backward(_known, input, weight, _weight_stride0, _weight_buf, hx, cx, _output, _grad_output, _grad_hy, _grad_cy, *rest, **kwargs):
    mask = kwargs.get("output_mask", rest[-1] if rest else [True] * 4)
    return (torch.empty_like(input) if mask[0] else None, torch.empty_like(hx) if mask[1] else None,
            torch.empty_like(cx) if cx is not None and mask[2] else None, [torch.empty_like(w) for w in weight] if mask[3] else [])


# kind of op -> why a step with it can be estimated and not be run
_NOT_FOR_RUNNING = {
    "_cudnn_init_dropout_state": "dropout between the layers of a recurrent network draws from a random state of cuDNN's; expected dropout=0 there, "
                                 "or single layers with nn.Dropout between them",
    "_ctc_loss": "CTC loss works in memory whose size depends on the lengths of labels; expected another loss",
}


def check_runs(recorder):
    """CaptureError where a step can only be estimated."""
    for op in recorder.ops:
        if op["kind"] in _NOT_FOR_RUNNING:
            raise CaptureError(f"layer {op.get('layer') or '(none)'}: {_NOT_FOR_RUNNING[op['kind']]}")


def is_dropout_state(fake):
    """What the rule for _cudnn_init_dropout_state made in an earlier capture of this process, and torch has kept."""
    return fake.dtype == torch.uint8 and tuple(fake.shape) == (0,)


def drawn_seed(known, fake):
    """The number that C++ code draws for cuDNN's dropout; None where it is something else. No shape depends on it."""
    made = known.maker(fake)
    return 0 if made is not None and made["kind"] == "random_" and fake.dtype == torch.int64 and fake.dim() == 0 else None


def _cudnn_init_dropout_state(_known, _dropout, _train, _seed, dtype=torch.uint8, layout=None, device=None, pin_memory=None):
    """Made once and kept by torch; an estimate knows how large it is. Torch would keep ours, too, and give it to kernels of this process."""
    if not on_phantom():
        raise CaptureError("dropout between the layers of a recurrent network is captured in a process of its own; expected "
                           "`ebbtide estimate SCRIPT.py:function`, or dropout=0 there")
    return torch.empty(0, dtype=dtype, device=device)


_RULES = {aten._cudnn_init_dropout_state.default: _cudnn_init_dropout_state,
          aten._ctc_loss.default: _ctc_loss, aten._ctc_loss.Tensor: _ctc_loss, aten._ctc_loss_backward.default: _ctc_loss_backward,
          aten._ctc_loss_backward.Tensor: _ctc_loss_backward, aten._cudnn_rnn.default: _cudnn_rnn, aten._cudnn_rnn_backward.default: _cudnn_rnn_backward}


def call(function, args, kwargs, known):
    """The call on fakes, by a rule of ours where torch has none that will do."""
    rule = _RULES.get(function)
    return function(*args, **kwargs) if rule is None else rule(known, *args, **kwargs)
