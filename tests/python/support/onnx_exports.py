"""ONNX files of the models in torch_models, in training mode, by both of torch's exporters: for the test and the
benchmark that compare them with captured steps. Weights are not part of the files, or not worth their time: see docs/onnx.md."""

import contextlib
import io
import logging
import warnings

import onnx
import onnx_ir
import torch
from torch._subclasses import FakeTensor, FakeTensorMode

from ebbtide import torch_models


def export(name, path, exporter="dynamo", opset=None, **sizes):
    """Writes `path`, with a symbolic batch. Exporters: dynamo (torch.export) and torchscript."""
    model, _, _, batch = torch_models.build(name, optimizer="none", **sizes)
    example = batch["input_ids"] if isinstance(batch, dict) else batch[0]
    with _quiet():
        if exporter == "dynamo":
            _export_dynamo(model, example, path, opset)
        else:
            _export_torchscript(model, example, path, opset)


def _export_dynamo(model, example, path, opset):
    """Over fakes: no weight is ever made. optimize=False keeps batch norms apart from convolutions."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = _materialized(model)
        program = torch.onnx.export(
            model, (torch.zeros(example.shape, dtype=example.dtype),), dynamo=True, optimize=False, opset_version=opset,
            dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False)
    for name, value in program.model.graph.initializers.items():
        tensor = value.const_value
        if isinstance(tensor.raw, FakeTensor):
            value.const_value = onnx_ir.ExternalTensor("weights", 0, tensor.nbytes, tensor.dtype, name=name, shape=tensor.shape)
    onnx.save(onnx_ir.serde.serialize_model(program.model), path)


def _export_torchscript(model, example, path, opset):
    """Over weights of zeros, since this exporter reads them."""
    model = _materialized(model)
    with torch.no_grad():
        for tensor in (*model.parameters(), *model.buffers()):
            tensor.zero_()
    torch.onnx.export(
        model, (torch.zeros(example.shape, dtype=example.dtype),), path, dynamo=False, opset_version=opset,
        training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=["input"],
        dynamic_axes={"input": {0: "batch"}})


def _materialized(model):
    """The model off the meta device, with the weights that it ties tied again."""
    model = model.to_empty(device="cpu").train()
    if hasattr(model, "tie_weights"):
        model.tie_weights()
    return model


@contextlib.contextmanager
def _quiet():
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)
