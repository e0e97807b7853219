"""Captures twins of built-in models with the kernels of CUDA: capture_twins.py FOLDER JSON, where JSON is {file name:
arguments of twins.build, and autocast}. Several in one process, as it takes torch seconds to start."""

import json
import pathlib
import sys
import warnings

import torch

import ebbtide
from ebbtide import twins

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

warnings.simplefilter("ignore")
for name, arguments in json.loads(sys.argv[2]).items():
    step = {"inference": arguments.get("inference", False), "autocast": DTYPES.get(arguments.pop("autocast", None))}
    ebbtide.capture(*twins.build(**arguments), device="cuda", **step).save(pathlib.Path(sys.argv[1]) / name)
