"""The library that calls torch's kernels for the engine (kernels/), compiled for the very torch it is loaded into.

For the torch of the environment that Ebbtide was built in it comes with the package; for any other it is compiled at its
first use and kept in the user's cache folder, with a sum that tells whether it is whole. Nothing is loaded from a folder
that others can write to.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

_FOLDER = pathlib.Path(__file__).resolve().parent
SOURCES = _FOLDER / "kernels"
# The border to the engine, run/engine/kernels_abi.h: beside the sources in a wheel, in src/ in a checkout.
_HEADERS = SOURCES if (SOURCES / "run").is_dir() else _FOLDER.parents[2] / "src"


class LibraryError(RuntimeError):
    """One line: what is missing."""


def library(device: str = "cpu") -> str:
    """The path of the library for the device, "cpu" or "cuda", which is compiled if need be."""
    import torch

    name = _name(torch, device)
    built = pathlib.Path(__file__).parent / "kernels" / name  # not resolved: beside the links of a build folder
    if built.is_file():
        return str(built)
    from ..files import cache_folder, is_sealed, make_private

    path = cache_folder() / "torch" / name
    if is_sealed(path):
        return str(path)
    if not make_private(path.parent):
        path = pathlib.Path(_folder_of_this_process()) / name
    if not path.is_file() or not is_sealed(path):  # not there, or damaged
        build({device: path})
    return str(path)


@functools.cache
def _folder_of_this_process() -> str:
    """For a library that cannot be kept: the cache folder is not there, or others can write to it. Removed at the end."""
    folder = tempfile.mkdtemp(prefix="ebbtide-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _name(torch: Any, device: str) -> str:
    return f"kernels-{'cuda-' if device == 'cuda' else ''}{_key(torch)}.so"


def _key(torch: Any) -> str:
    """Of the sources and the torch that they are compiled for."""
    content = b"".join(path.read_bytes() for path in [*sorted(SOURCES.glob("*.[ch]*")), _HEADERS / "run" / "engine" / "kernels_abi.h"])
    return hashlib.sha256(content + f"{torch.__version__} {torch.__file__}".encode()).hexdigest()[:16]


def build(paths: Mapping[str, pathlib.Path], compiler: Sequence[str] = ()) -> None:
    """Compiles the library of each device for the torch of this Python, what they share once. `compiler`: its command;
    else $CXX, c++, g++ or clang++. That for cuda needs CUDA's headers."""
    import torch

    seal = _files().seal
    if not compiler:
        names = [*os.environ.get("CXX", "").split()[:1], "c++", "g++", "clang++"]
        found = next((where for where in map(shutil.which, names) if where), None)
        if found is None:
            raise LibraryError(f"the engine needs a C++ compiler for torch {torch.__version__}: install g++ or set CXX")
        compiler = [found]
    folder = pathlib.Path(torch.__file__).parent
    arguments = [
        "-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-w",  # NDEBUG as torch's wheels
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        "-isystem", str(folder / "include"), "-isystem", str(folder / "include" / "torch" / "csrc" / "api" / "include"),
        f"-I{_HEADERS}",
    ]
    sources = sorted(SOURCES.glob("*.cc"))
    if "cuda" in paths:
        headers = cuda_headers(torch)
        if headers is None:
            raise LibraryError(f"device cuda needs CUDA's headers for torch {torch.__version__}: pip install nvidia-cuda-runtime (of torch's CUDA version)")
        arguments += ["-isystem", str(headers)]
        if not (headers / "crt" / "host_defines.h").is_file():
            arguments += ["-isystem", str(_FOLDER.parent / "observer")]
    else:
        sources = [source for source in sources if not _is_for_cuda(source)]
    # The compiler must not run under the phantom.
    kept = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("EBBTIDE_PHANTOM_")}
    target = next(iter(paths.values())).parent
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as temporary:
        objects = {source: os.path.join(temporary, source.stem + ".o") for source in sources}
        commands = [[*compiler, *arguments, "-c", str(source), "-o", made] for source, made in objects.items()]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(lambda command: _run(command, kept), commands):
                pass
        for device, path in paths.items():
            linked = [made for source, made in objects.items() if device == "cuda" or not _is_for_cuda(source)]
            libraries = ["-lc10", "-ltorch_cpu", *(["-lc10_cuda", "-ltorch_cuda"] if device == "cuda" else [])]
            library_made = os.path.join(temporary, path.name)
            _run([compiler[-1], "-shared", *linked, f"-L{folder / 'lib'}", *libraries, "-o", library_made], kept)
            seal(library_made)
            os.replace(library_made, path)


def _files() -> Any:
    """The module files, also where this one is run by its path for the build."""
    import importlib.util

    if __package__:
        return importlib.import_module("..files", __package__)
    spec = importlib.util.spec_from_file_location("_ebbtide_files", _FOLDER.parent / "files.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _is_for_cuda(source: pathlib.Path) -> bool:
    return source.name.startswith("cuda_")


def cuda_headers(torch: Any) -> pathlib.Path | None:
    """The folder with cuda_runtime_api.h of torch's CUDA; None: there is none."""
    if not torch.version.cuda:
        return None
    homes = [os.environ.get("CUDA_HOME"), "/usr/local/cuda"]
    folders = [*sorted(pathlib.Path(torch.__file__).parents[1].glob("nvidia/*/include")), *(pathlib.Path(home) / "include" for home in homes if home)]
    major = torch.version.cuda.split(".")[0]
    for folder in folders:
        header = folder / "cuda_runtime_api.h"
        if header.is_file() and re.search(rf"define CUDART_VERSION\s+{major}\d\d\d\b", header.read_text(errors="replace")):
            return folder
    return None


def _run(command: Sequence[str], environment: Mapping[str, str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    if result.returncode != 0:
        error = next((line for line in result.stderr.splitlines() if "error" in line), "no message")
        raise LibraryError(f"the engine's library does not compile for this torch: {error}")


if __name__ == "__main__":  # torch_library.py FOLDER [COMPILER...]: for the build
    import torch

    try:
        folder = pathlib.Path(sys.argv[1])
        for old in folder.glob("kernels-*.so"):
            old.unlink()
        build({device: folder / _name(torch, device) for device in (("cpu", "cuda") if cuda_headers(torch) else ("cpu",))}, sys.argv[2:])
    except LibraryError as error:
        sys.exit(f"torch_library: {error}")
