"""Captures the PyTorch models that built-in models stand for, with the kernels of CUDA: capture_torch_models.py FOLDER
JSON, where JSON is {file name: arguments of torch_models.build, and autocast}. Several in one process, as it takes torch
seconds to start."""

import json
import pathlib
import sys
import warnings

import torch

import ebbtide
from ebbtide import torch_models

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

warnings.simplefilter("ignore")
for name, arguments in json.loads(sys.argv[2]).items():
    step = {"inference": arguments.get("inference", False), "autocast": DTYPES.get(arguments.pop("autocast", None))}
    ebbtide.capture(*torch_models.build(**arguments), device="cuda", **step).save(pathlib.Path(sys.argv[1]) / name)
