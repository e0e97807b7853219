"""The library that calls torch's kernels for the engine (kernels/), compiled for the minor version of torch that it is loaded into.

A wheel has it for the versions that it was made for, a build folder for the torch of its environment; for any other it is compiled at its
first use and kept in the user's cache folder, with a sum that tells whether it is whole. Nothing is loaded from a folder
that others can write to.
"""

from __future__ import annotations

import pathlib

from ..files import kept_library
from ..torch_package import LibraryError, TorchPackage, compile_for

__all__ = ["LibraryError", "library"]


def library(device: str = "cpu") -> str:
    """The path of the library for the device, "cpu" or "cuda", which is compiled if need be."""
    what = "kernels-cuda" if device == "cuda" else "kernels"
    torch = TorchPackage()
    name = torch.build_name(what)
    built = pathlib.Path(__file__).parent / "kernels" / name  # not resolved: beside the links of a build folder
    if built.is_file():
        return str(built)
    return str(kept_library("torch", name, lambda path: compile_for(torch, {what: path})))
