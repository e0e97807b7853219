"""Follows PyTorch's operators on the phantom GPU: what they read and write, for the race checker, and what their skipped
kernels would have written, as far as that is known (observer/values.h).

The observer is a small library in C++ (observer/) that must be compiled against the very torch it is loaded into. For the
torch of the environment that Ebbtide was built in it comes with the phantom; for any other it is compiled at its first
use and kept in the user's cache folder, with a sum that tells whether it is whole.
"""

import atexit
import concurrent.futures
import ctypes
import hashlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCES = pathlib.Path(__file__).resolve().parent / "observer"


class ObserverError(RuntimeError):
    """One line: what is missing."""


def start():
    """Loads the observer into this process, which must run under the phantom with EBBTIDE_PHANTOM_CHECK=race.

    Imports torch. Raises ObserverError where it cannot be loaded.
    """
    import torch

    path = _find(_Torch())
    library = ctypes.CDLL(str(path))
    if library.ebbtide_observer_start(os.fsencode(os.path.join(os.path.dirname(torch.__file__), ""))) != 0:
        raise ObserverError("this process does not run under the phantom GPU")
    _heed_queries(torch)


class Values:
    """What skipped kernels would have written, followed from now on; what was assumed where nobody knows it.

    `assume`: "masks=0.5,experts=first", as `ebbtide dryrun --assume` has it. Raises ObserverError as `start`.
    """

    def __init__(self, assume=""):
        import torch

        self._library = ctypes.CDLL(str(_find(_Torch())))
        self._library.ebbtide_values_report.restype = ctypes.c_char_p
        self._library.ebbtide_values_error.restype = ctypes.c_char_p
        folder = os.fsencode(os.path.join(os.path.dirname(torch.__file__), ""))
        answer = self._library.ebbtide_values_start(folder, assume.encode())
        if answer == 2:
            raise ObserverError(f"--assume: {self._library.ebbtide_values_error().decode()}")
        if answer != 0:
            raise ObserverError("this process does not run under the phantom GPU")

    def report(self):
        """{"assumptions": [{"line", "what", "led_to", "assumed", "count"}], "left_out": how many were too many}."""
        return json.loads(self._library.ebbtide_values_report().decode(errors="replace"))


def start_timing():
    """Has PyTorch's operators take the time that is modelled for them. False: the phantom models none.

    Raises ObserverError as `start`.
    """
    return ctypes.CDLL(str(_find(_Torch()))).ebbtide_observer_time() == 0


def _heed_queries(torch):
    """What the program itself asks about orders what it does next; what allocators ask about does not."""
    phantom = ctypes.CDLL(None)

    def heeding(query):
        def heeded(self):
            phantom.ebbtide_phantom_query_begin()
            try:
                return query(self)
            finally:
                phantom.ebbtide_phantom_query_end()

        heeded.__doc__ = query.__doc__
        return heeded

    torch.cuda.Event.query = heeding(torch.cuda.Event.query)
    torch.cuda.Stream.query = heeding(torch.cuda.Stream.query)


class _Torch:
    """Where the torch of this Python is and how it was compiled, without importing it."""

    def __init__(self):
        spec = importlib.util.find_spec("torch")
        if spec is None or not spec.origin:
            raise ObserverError("the phantom's observer needs torch in this Python environment")
        self.folder = pathlib.Path(spec.origin).parent
        version = re.search(r"__version__ = '([^']+)'", (self.folder / "version.py").read_text())
        self.version = version[1] if version else "unknown"
        config = self.folder / "share" / "cmake" / "Torch" / "TorchConfig.cmake"
        flags = config.read_text() if config.is_file() else ""
        self.new_strings = "_GLIBCXX_USE_CXX11_ABI=0" not in flags

    def cuda_headers(self):
        nvidia = self.folder.parent / "nvidia"
        for header in sorted(nvidia.glob("*/include/cuda_runtime_api.h")):
            major = re.search(r"define CUDART_VERSION\s+(\d+)", header.read_text(errors="replace"))
            if major is None or f"+cu{int(major[1]) // 1000}" in self.version or "+" not in self.version:
                return header.parent
        if (home := os.environ.get("CUDA_HOME")) and (pathlib.Path(home) / "include" / "cuda_runtime_api.h").is_file():
            return pathlib.Path(home) / "include"
        raise ObserverError(
            f"the phantom's observer needs CUDA's headers to be compiled for torch {self.version}: "
            "pip install nvidia-cuda-runtime (of torch's CUDA version)"
        )


def _find(torch):
    name = f"observer-{torch.version}.so"
    phantom = _phantom_folder()
    if phantom and (phantom / "observer" / name).is_file():
        return phantom / "observer" / name
    content = b"".join(path.read_bytes() for path in sorted(SOURCES.rglob("*.[ch]*")))
    key = hashlib.sha256(content + str(torch.folder).encode()).hexdigest()[:16]
    from .files import cache_folder, is_sealed, make_private, seal

    path = cache_folder() / "observer" / f"{key}-{name}"
    if is_sealed(path):
        return path
    if not make_private(path.parent):
        folder = tempfile.mkdtemp(prefix="ebbtide-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = pathlib.Path(folder) / path.name
    made = path.with_name(f"{path.name}.{os.getpid()}")
    build(made, torch)
    seal(made)
    os.replace(made, path)
    return path


def _phantom_folder():
    """Of the phantom's own library in this process."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            if line.rstrip().endswith("/libebbtide_phantom.so"):
                return pathlib.Path(line.split(maxsplit=5)[5].rstrip()).parent
    return None


def build(path, torch=None, compiler=()):
    """Compiles the observer for the torch of this Python. `compiler`: its command; else $CXX, c++, g++ or clang++."""
    torch = torch or _Torch()
    if not compiler:
        names = [*os.environ.get("CXX", "").split()[:1], "c++", "g++", "clang++"]
        found = next((where for where in map(shutil.which, names) if where), None)
        if found is None:
            raise ObserverError(
                f"the phantom's observer needs a C++ compiler to be compiled for torch {torch.version}: "
                "install g++ or set CXX"
            )
        compiler = [found]
    cuda = torch.cuda_headers()
    include = torch.folder / "include"
    arguments = [
        "-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-w",  # NDEBUG as torch's wheels
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.new_strings)}",
        "-isystem", str(include), "-isystem", str(include / "torch" / "csrc" / "api" / "include"), "-isystem", str(cuda),
    ]
    if not (cuda / "crt" / "host_defines.h").is_file():
        arguments += ["-isystem", str(SOURCES)]
    lib = torch.folder / "lib"
    path.parent.mkdir(parents=True, exist_ok=True)
    # The compiler must not run under the phantom.
    kept = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("EBBTIDE_PHANTOM_")}
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = pathlib.Path(folder) / path.name

        def run(*words):
            result = subprocess.run([*compiler, *words], capture_output=True, text=True, env=kept)
            if result.returncode != 0:
                error = next((line for line in result.stderr.splitlines() if "error" in line), "no message")
                raise ObserverError(f"the phantom's observer does not compile for torch {torch.version}: {error}")

        def compile_one(source):
            run(*arguments, "-c", str(source), "-o", str(made.with_name(source.stem + ".o")))
            return str(made.with_name(source.stem + ".o"))

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(compile_one, sorted(SOURCES.glob("*.cc"))))
        run("-shared", *objects, f"-L{lib}", "-lc10", "-lc10_cuda", "-ltorch_cpu", "-o", str(made))
        os.replace(made, path)


if __name__ == "__main__":  # phantom_observer.py FOLDER [COMPILER...]: for the build, observer-<torch's version>.so there
    try:
        of_environment = _Torch()
        build(pathlib.Path(sys.argv[1]) / f"observer-{of_environment.version}.so", of_environment, sys.argv[2:])
    except ObserverError as error:
        sys.exit(f"phantom_observer: {error}")
