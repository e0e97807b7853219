"""Captures fine-tuned PyTorch models: capture_fine_tuning.py DEVICE FOLDER JSON, where JSON is {file name:
arguments of fine_tuned.build, and `optimizer`, `accumulate`, `autocast` as `ebbtide inspect` has them}."""

import json
import pathlib
import sys
import warnings

import fine_tuned
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ebbtide.capture import record as capture_record
from ebbtide.capture import step as capture_step
from ebbtide.capture.inputs import StepInputs, nothing_else_changes, standing_in
from ebbtide.capture.known_values import KnownValues
from ebbtide.capture.layers import Layers
from ebbtide.capture.optimizers import describe
from ebbtide.capture.trace import Tracing, rules_for

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

# What a block draws when it is run again is what it drew before: the random state is put back.
capture_record._is_random = lambda function, arguments: False


def capture(model, loss_fn, optimizer, batch, device, passes, autocast):
    """ebbtide.capture with several passes before the update."""
    update = describe(optimizer)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    inputs = StepInputs(model, batch, device, mode)
    recorder, layers, known = inputs.recorder, Layers(model), KnownValues(inputs.recorder)
    rules = rules_for(mode)
    tracing = Tracing(recorder, inputs.fakes, known, rules)
    with nothing_else_changes(), layers.followed(), known.not_called_fake(), mode, tracing, standing_in(model, inputs.state):
        for _ in range(passes):
            recorder.phase, recorder.layer = "forward", layers.forward
            with rules, torch.autocast(device, autocast, enabled=autocast is not None):
                loss = fine_tuned.loss_of(model, loss_fn, inputs.batch)[1]
            if passes > 1:
                loss = loss / passes
            recorder.phase, recorder.layer = "backward", layers.backward
            with rules, rules.backward_of(loss):
                loss.backward()
    gradients = {name: fake.grad for _, fake, name in inputs.parameters.values() if fake.grad is not None}
    recorder.phase = "update"
    with torch.no_grad(), mode:
        update.record(recorder, tracing, inputs.parameters, inputs.declare_state)
    return capture_step._finish(model, update, inputs, [loss], gradients, 0)


def capture_torch_model(device, optimizer="sgd", accumulate=1, autocast=None, **arguments):
    # The states of random generators have no fakes.
    model, loss_fn, batch = fine_tuned.build(checkpoint_options={"preserve_rng_state": False}, **arguments)
    trained = fine_tuned.optimizer_of(model, optimizer)
    return capture(model, loss_fn, trained, batch, device, accumulate, DTYPES.get(autocast))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for file, arguments in json.loads(sys.argv[3]).items():
        capture_torch_model(sys.argv[1], **arguments).save(pathlib.Path(sys.argv[2]) / file)
