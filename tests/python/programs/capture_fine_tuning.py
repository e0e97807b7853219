"""Captures fine-tuned twins of built-in models: capture_fine_tuning.py DEVICE FOLDER JSON, where JSON is {file name:
arguments of fine_tuned.build, and `optimizer`, `accumulate`, `autocast` as `ebbtide inspect` has them}."""

import json
import pathlib
import sys
import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import fine_tuned
from ebbtide import capture_record, capture_step
from ebbtide.capture_known import KnownValues
from ebbtide.capture_layers import Layers
from ebbtide.capture_scene import Scene, nothing_else_changes, standing_in
from ebbtide.capture_trace import Tracing, rules_for
from ebbtide.optimizers import describe

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

# What a block draws when it is run again is what it drew before: the random state is put back.
capture_record._is_random = lambda function, arguments: False


def capture(model, loss_fn, optimizer, batch, device, passes, autocast):
    """ebbtide.capture with several passes before the update."""
    update = describe(optimizer)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    scene = Scene(model, batch, device, mode)
    recorder, layers, known = scene.recorder, Layers(model), KnownValues(scene.recorder)
    rules = rules_for(mode)
    tracing = Tracing(recorder, scene.fakes, known, rules)
    with nothing_else_changes(), layers.followed(), known.not_called_fake(), mode, tracing, standing_in(model, scene.state):
        for _ in range(passes):
            recorder.phase, recorder.layer = "forward", layers.forward
            with rules, torch.autocast(device, autocast, enabled=autocast is not None):
                loss = fine_tuned.loss_of(model, loss_fn, scene.batch)[1]
            if passes > 1:
                loss = loss / passes
            recorder.phase, recorder.layer = "backward", layers.backward
            with rules, rules.backward_of(loss):
                loss.backward()
    gradients = {name: fake.grad for _, fake, name in scene.parameters.values() if fake.grad is not None}
    recorder.phase = "update"
    with torch.no_grad(), mode:
        update.record(recorder, tracing, scene.parameters, scene.declare_state)
    return capture_step._finish(model, update, scene, [loss], gradients, 0)


def capture_twin(device, optimizer="sgd", accumulate=1, autocast=None, **arguments):
    # The states of random generators have no fakes.
    model, loss_fn, batch = fine_tuned.build(checkpoint_options={"preserve_rng_state": False}, **arguments)
    trained = fine_tuned.optimizer_of(model, optimizer)
    return capture(model, loss_fn, trained, batch, device, accumulate, DTYPES.get(autocast))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for file, arguments in json.loads(sys.argv[3]).items():
        capture_twin(sys.argv[1], **arguments).save(pathlib.Path(sys.argv[2]) / file)
