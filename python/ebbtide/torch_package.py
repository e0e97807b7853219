"""The torch of a Python environment, read from its files without importing it, and how libraries of ours are compiled for it.

Two libraries hold C++ that calls torch: that of the engine (native/kernels) and the phantom's observer (observer). Both depend on the minor
version of torch, its string ABI and its CUDA generation. A wheel has them for the versions that it was made for; for any other they are
compiled at their first use. Run by its path for the build: torch_package.py kernels|observer FOLDER [--torch FOLDER ...] -- [COMPILER ...].
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

_PACKAGE = pathlib.Path(__file__).resolve().parent
KERNELS = _PACKAGE / "native" / "kernels"
OBSERVER = _PACKAGE / "observer"
# The border to the engine, run/engine/kernels_abi.h: beside the sources in a wheel, in src/ in a checkout.
_BORDER = KERNELS if (KERNELS / "run").is_dir() else _PACKAGE.parents[1] / "src"
# What each library is made of, and links to: "kernels" is for the CPU, "kernels-cuda" and "observer" for CUDA.
_LINKS = {
    "kernels": ["c10", "torch_cpu"],
    "kernels-cuda": ["c10", "torch_cpu", "c10_cuda", "torch_cuda"],
    "observer": ["c10", "c10_cuda", "torch_cpu"],
}


class LibraryError(RuntimeError):
    """One line: what is missing."""


class TorchPackage:
    """Where a torch is and how it was compiled. `folder`: that of the package torch; None: what this Python would import.

    Raises LibraryError where there is none.
    """

    def __init__(self, folder: pathlib.Path | None = None) -> None:
        if folder is None:
            spec = importlib.util.find_spec("torch")
            if spec is None or not spec.origin:
                raise LibraryError("needs torch in this Python environment")
            folder = pathlib.Path(spec.origin).parent
        self.folder = folder
        text = (folder / "version.py").read_text(encoding="utf-8")
        version = re.search(r"^__version__ = '([^']+)'", text, re.MULTILINE)
        cuda = re.search(r"^cuda\b[^=]*= '([^']+)'", text, re.MULTILINE)
        self.version = version[1] if version else "unknown"
        self.cuda = cuda[1] if cuda else ""  # as "12.8"; empty: for the CPU alone
        config = folder / "share" / "cmake" / "Torch" / "TorchConfig.cmake"
        self.new_strings = "_GLIBCXX_USE_CXX11_ABI=0" not in (config.read_text() if config.is_file() else "")

    def build_name(self, library: str) -> str:
        """The name of the library's file for this torch. Releases of one minor version, string ABI and CUDA generation share it; a torch that
        is no release has one of its own. The sources are part of the name."""
        release = re.fullmatch(r"(\d+\.\d+)\.\d+(\+(cu\d+|cpu))?", self.version)
        which = release[1] if release else f"{self.version}-{hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]}"
        generation = f"-cu{self.cuda.partition('.')[0]}" if library != "kernels" else ""
        return f"{library}-torch{which}-abi{int(self.new_strings)}{generation}-{_sum_of_sources(library)}.so"

    def cuda_headers(self) -> pathlib.Path | None:
        """The folder with cuda_runtime_api.h of torch's CUDA generation; None: there is none."""
        generation = self.cuda.partition(".")[0]
        if not generation:
            return None
        homes = [home for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda") if home]
        for folder in [*sorted(self.folder.parent.glob("nvidia/*/include")), *(pathlib.Path(home) / "include" for home in homes)]:
            header = folder / "cuda_runtime_api.h"
            if header.is_file() and re.search(rf"define CUDART_VERSION\s+{generation}\d\d\d\b", header.read_text(errors="replace")):
                return folder
        return None


def _sources(library: str) -> list[pathlib.Path]:
    if library == "observer":
        return sorted(OBSERVER.glob("*.cc"))
    return [source for source in sorted(KERNELS.glob("*.cc")) if library == "kernels-cuda" or not source.name.startswith("cuda_")]


def _sum_of_sources(library: str) -> str:
    files = sorted(OBSERVER.rglob("*.[ch]*")) if library == "observer" else [*sorted(KERNELS.glob("*.[ch]*")), _BORDER / "run" / "engine" / "kernels_abi.h"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


# Of a function in a class: what it returns, its name, its parameters, const, override.
_DECLARED = re.compile(
    r"(?:\bvirtual\b|^\s)([^;{}()~]*?)\b(\w+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*(const)?\s*(override)?\s*(?:=\s*0)?\s*[;{]", re.MULTILINE)
# What cuda_memory.cc has functions of its own for.
_OWN = {"raw_alloc", "raw_alloc_with_stream", "raw_delete", "recordStream"}


def forwarding_allocator(include: pathlib.Path) -> str:
    """A class after torch's own allocators of CUDA memory that passes every call on, in C++. What these have differs from version to version,
    so it is read from the headers. Raises LibraryError where they are not as expected."""
    header = (include / "c10" / "cuda" / "CUDACachingAllocator.h").read_text()
    bodies = [_class_body(header, "CUDAAllocator")]
    if re.search(r"class CUDAAllocator : public (c10::)?DeviceAllocator", header):
        bodies.append(_class_body((include / "c10" / "core" / "CachingDeviceAllocator.h").read_text(), "DeviceAllocator"))
    functions: dict[tuple[str, tuple[str, ...]], tuple[str, str]] = {}
    for body in bodies:
        for declared in _DECLARED.finditer(body):
            returned, name, parameters, constant, override = declared.groups()
            if name in _OWN or not (override or declared[0].lstrip().startswith("virtual")):
                continue
            kinds = [_type_of(parameter) for parameter in _split(parameters)]
            functions.setdefault((name, tuple(kinds)), (returned.replace("virtual", "").strip(), constant or ""))
    if not {"init", "emptyCache", "getDeviceStats", "snapshot", "name"} <= {name for name, _ in functions}:
        raise LibraryError(f"{include}: expected torch's allocator of CUDA memory, found other functions in it")
    lines = ["#pragma once", "#include <c10/cuda/CUDACachingAllocator.h>", "namespace c10::cuda::CUDACachingAllocator {",
             "class EbbtideForwardingAllocator : public CUDAAllocator {", " public:",
             "  explicit EbbtideForwardingAllocator(CUDAAllocator* before) : before_(before) {}"]
    for (name, types), (returned, constant) in functions.items():
        parameters = ", ".join(f"{kind} a{i}" for i, kind in enumerate(types))
        passed = ", ".join(f"std::forward<{kind}>(a{i})" for i, kind in enumerate(types))
        lines.append(f"  {returned} {name}({parameters}) {constant} override {{ return before_->{name}({passed}); }}")
    lines += [" protected:", "  CUDAAllocator* const before_;", "};", "}  // namespace c10::cuda::CUDACachingAllocator", ""]
    return "\n".join(lines)


def _class_body(header: str, name: str) -> str:
    """Between the braces of the class, without comments, default arguments in braces, and what is in its functions."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/|=\s*\{[^{}]*\}", "", header, flags=re.DOTALL)
    begin = re.search(rf"\b(?:class|struct)\s+(?:\w+\s+)?{name}\s*(?::[^;{{]*)?{{", text)
    if begin is None:
        raise LibraryError(f"expected {name} in torch's headers")
    depth, at = 1, begin.end()
    while depth > 0 and at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    body, shallow, level = text[begin.end() : at - 1], [], 0
    for character in body:  # without what is in the functions
        level -= character == "}"
        if level == 0 or (level == 1 and character == "{"):
            shallow.append(character)
        level += character == "{"
    return re.sub(r"\{\}?", "{", "".join(shallow)).replace("}", "\n")


def _split(parameters: str) -> list[str]:
    """At the commas between parameters, not those within them."""
    parts, depth = [""], 0
    for character in parameters:
        depth += {"<": 1, "(": 1, "{": 1, ">": -1, ")": -1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def _type_of(parameter: str) -> str:
    words = " ".join(parameter.partition("=")[0].split())
    named = re.fullmatch(r"(.*[\s&*>])([A-Za-z_]\w*)", words)
    return named[1].strip() if named and named[1].strip() != "const" else words


def compile_for(torch: TorchPackage, paths: Mapping[str, pathlib.Path], compiler: Sequence[str] = (), headers: pathlib.Path | None = None) -> None:
    """Compiles libraries (kernels, kernels-cuda, observer) for the torch, each to its path, what they share once. `compiler`: its command, else
    $CXX, c++, g++ or clang++. `headers`: CUDA's, else those that are found beside torch. Where torch's own libraries are not there, only its
    headers, they are linked by name. Raises LibraryError."""
    names = " and ".join("the phantom's observer" if library == "observer" else "the engine" for library in paths)
    if not compiler:
        candidates = [*os.environ.get("CXX", "").split()[:1], "c++", "g++", "clang++"]
        found = next((where for where in map(shutil.which, candidates) if where), None)
        if found is None:
            raise LibraryError(f"{names} needs a C++ compiler for torch {torch.version}, which this wheel has no library for: install g++ or set CXX")
        compiler = [found]
    include = torch.folder / "include"
    arguments = [
        "-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-w",  # NDEBUG as torch's wheels
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.new_strings)}",
        "-isystem", str(include), "-isystem", str(include / "torch" / "csrc" / "api" / "include"), f"-I{_BORDER}",
    ]
    if list(paths) != ["kernels"]:
        headers = headers or torch.cuda_headers()
        if headers is None:
            raise LibraryError(f"{names} needs CUDA's headers for torch {torch.version}: pip install nvidia-cuda-runtime (of torch's CUDA version)")
        arguments += ["-isystem", str(headers)]
        if not (headers / "crt" / "host_defines.h").is_file():
            arguments += ["-isystem", str(OBSERVER)]
    # The compiler must not run under the phantom.
    kept = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("EBBTIDE_PHANTOM_")}

    def run(words: Sequence[str]) -> None:
        result = subprocess.run(words, capture_output=True, text=True, env=kept)
        if result.returncode != 0:
            error = next((line for line in result.stderr.splitlines() if "error" in line), "no message")
            raise LibraryError(f"{names} does not compile for torch {torch.version}: {error}")

    target = next(iter(paths.values())).parent
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target) as temporary:
        if "kernels-cuda" in paths:
            pathlib.Path(temporary, "forwarding_allocator.h").write_text(forwarding_allocator(include))
            arguments.append(f"-I{temporary}")
        sources = sorted({source for library in paths for source in _sources(library)})
        objects = {source: os.path.join(temporary, source.stem + ".o") for source in sources}
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(run, [[*compiler, *arguments, "-c", str(source), "-o", made] for source, made in objects.items()]):
                pass
        folder = torch.folder / "lib"
        if not (folder / "libc10.so").is_file():
            folder = pathlib.Path(temporary)
            for name in {name for links in _LINKS.values() for name in links}:
                run([compiler[-1], "-shared", "-x", "c", os.devnull, f"-Wl,-soname,lib{name}.so", "-o", str(folder / f"lib{name}.so")])
        for library, path in paths.items():
            made = os.path.join(temporary, path.name)
            links = [f"-l{name}" for name in _LINKS[library]]
            run([compiler[-1], "-shared", *(objects[source] for source in _sources(library)), f"-L{folder}", "-Wl,--no-as-needed", *links, "-s", "-o", made])
            os.replace(made, path)


def _main(words: list[str]) -> None:
    import argparse

    parser = argparse.ArgumentParser(prog="torch_package", description="Compiles the libraries of ours that call torch. Behind --: the compiler.")
    parser.add_argument("library", choices=["kernels", "observer"])
    parser.add_argument("folder", type=pathlib.Path, help="where the libraries go; older ones in it are removed unless --keep")
    parser.add_argument("--torch", type=pathlib.Path, help="the folder of the package torch (default: that of this Python)")
    parser.add_argument("--cuda-headers", type=pathlib.Path)
    parser.add_argument("--keep", action="store_true", help="leave other libraries in the folder, and those that are there already")
    cut = words.index("--") if "--" in words else len(words)
    arguments, compiler = parser.parse_args(words[:cut]), words[cut + 1 :]
    torch = TorchPackage(arguments.torch)
    headers = arguments.cuda_headers or torch.cuda_headers()
    libraries = ["observer"] if arguments.library == "observer" else ["kernels", *(["kernels-cuda"] if headers else [])]
    paths = {library: arguments.folder / torch.build_name(library) for library in libraries}
    if arguments.keep and all(path.is_file() for path in paths.values()):
        return
    if not arguments.keep:
        for old in arguments.folder.glob(f"{arguments.library}-*.so"):
            old.unlink()
    compile_for(torch, paths, compiler, headers)


if __name__ == "__main__":
    try:
        _main(sys.argv[1:])
    except LibraryError as error:
        sys.exit(f"torch_package: {error}")
