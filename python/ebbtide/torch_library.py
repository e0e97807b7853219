"""The library that calls torch's kernels for the engine (_torch/), compiled for the very torch it is loaded into.

For the torch of the environment that Ebbtide was built in it comes with the package; for any other it is compiled at its
first use and kept in the user's cache folder.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

_PACKAGE = pathlib.Path(__file__).resolve().parent
SOURCES = _PACKAGE / "_torch"
# The border to the engine, run/kernels_abi.h: beside the sources in a wheel, in src/ in a checkout.
_HEADERS = SOURCES if (SOURCES / "run").is_dir() else _PACKAGE.parents[1] / "src"


class LibraryError(RuntimeError):
    """One line: what is missing."""


def library(device="cpu"):
    """The path of the library for the device, "cpu" or "cuda", which is compiled if need be."""
    import torch

    name = _name(torch, device)
    built = pathlib.Path(__file__).parent / "_torch" / name  # not resolved: beside the links of a build folder
    if built.is_file():
        return str(built)
    path = cache_folder() / "torch" / name
    if not path.is_file():
        build(path, device=device)
    return str(path)


def _name(torch, device):
    return f"kernels-{'cuda-' if device == 'cuda' else ''}{_key(torch)}.so"


def cache_folder():
    """Where what was worked out is kept from run to run."""
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ebbtide"


def _key(torch):
    """Of the sources and the torch that they are compiled for."""
    content = b"".join(path.read_bytes() for path in [*sorted(SOURCES.glob("*.[ch]*")), _HEADERS / "run" / "kernels_abi.h"])
    return hashlib.sha256(content + f"{torch.__version__} {torch.__file__}".encode()).hexdigest()[:16]


def build(path, compiler=(), device="cpu"):
    """Compiles the library for the torch of this Python. `compiler`: its command; else $CXX, c++, g++ or clang++. That for
    cuda needs CUDA's headers."""
    import torch

    if not compiler:
        names = [*os.environ.get("CXX", "").split()[:1], "c++", "g++", "clang++"]
        found = next((where for where in map(shutil.which, names) if where), None)
        if found is None:
            raise LibraryError(f"the engine needs a C++ compiler for torch {torch.__version__}: install g++ or set CXX")
        compiler = [found]
    folder = pathlib.Path(torch.__file__).parent
    arguments = [
        "-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", "-w",  # NDEBUG as torch's wheels
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        "-isystem", str(folder / "include"), "-isystem", str(folder / "include" / "torch" / "csrc" / "api" / "include"),
        f"-I{_HEADERS}",
    ]
    sources, libraries = sorted(SOURCES.glob("*.cc")), ["-lc10", "-ltorch_cpu"]
    if device == "cuda":
        headers = cuda_headers(torch)
        if headers is None:
            raise LibraryError(f"device cuda needs CUDA's headers for torch {torch.__version__}: pip install nvidia-cuda-runtime (of torch's CUDA version)")
        arguments += ["-isystem", str(headers)]
        if not (headers / "crt" / "host_defines.h").is_file():
            arguments += ["-isystem", str(_PACKAGE / "observer")]
        libraries += ["-lc10_cuda", "-ltorch_cuda"]
    else:
        sources = [source for source in sources if not source.name.startswith("cuda_")]
    path.parent.mkdir(parents=True, exist_ok=True)
    # The compiler must not run under the phantom.
    kept = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("EBBTIDE_PHANTOM_")}
    with tempfile.TemporaryDirectory(dir=path.parent) as temporary:
        objects = []
        for source in sources:
            objects.append(os.path.join(temporary, source.stem + ".o"))
            _run([*compiler, *(a for a in arguments if a != "-shared"), "-c", str(source), "-o", objects[-1]], kept)
        made = os.path.join(temporary, path.name)
        _run([compiler[-1], "-shared", *objects, f"-L{folder / 'lib'}", *libraries, "-o", made], kept)
        os.replace(made, path)


def cuda_headers(torch):
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


def _run(command, environment):
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
        for device in ("cpu", "cuda") if cuda_headers(torch) else ("cpu",):
            build(folder / _name(torch, device), sys.argv[2:], device)
    except LibraryError as error:
        sys.exit(f"torch_library: {error}")
