"""Captures twins of built-in models with the kernels of CUDA: capture_twins.py FOLDER JSON, where JSON is {file name:
arguments of twins.build}. Several in one process, as it takes torch seconds to start."""

import json
import pathlib
import sys
import warnings

import ebbtide
from ebbtide import twins

warnings.simplefilter("ignore")
for name, arguments in json.loads(sys.argv[2]).items():
    ebbtide.capture(*twins.build(**arguments), device="cuda").save(pathlib.Path(sys.argv[1]) / name)
