"""Allocations and frees for a second: torch's own CUDA allocator and the tide allocator, driven the same way in one process on the phantom GPU,
with one thousand to one million blocks that live. Prints the time of a call of either, the ratio (above 1: the tide allocator is faster), and what
a call costs with that many blocks against one thousand.

    build/python bench/tide/torch_bench.py [PAIRS]
"""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from _on_phantom import on_phantom  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("EBBTIDE_BUILD") or ROOT / "build")


def compile_drive(folder):
    import torch

    from ebbtide.torch_package import TorchPackage

    home, headers = pathlib.Path(torch.__file__).parent, TorchPackage().cuda_headers()
    program = folder / "torch_drive"
    libraries = [home / "lib", headers.parent / "lib"]
    subprocess.run(
        [os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-DNDEBUG", "-w", "-isystem", home / "include", "-isystem", headers,
         "-isystem", ROOT / "python" / "ebbtide" / "observer", pathlib.Path(__file__).with_name("torch_drive.cpp"), "-o", program,
         *(f"-L{path}" for path in libraries), "-lc10", "-lc10_cuda", "-l:libcudart.so.13", "-ldl",
         "-Wl,-rpath," + ":".join(map(str, libraries))], check=True)
    return program


def main():
    if not (on_phantom.LIBRARIES / "cu13").is_dir():
        sys.exit("the build has no phantom GPU")
    pairs = sys.argv[1] if len(sys.argv) > 1 else "300000"
    library = BUILD / "python-path" / "ebbtide" / "libebbtide_tide.so"
    with tempfile.TemporaryDirectory() as name:
        program = compile_drive(pathlib.Path(name))
        done = subprocess.run([program, library, pairs], capture_output=True, text=True,
                              env=on_phantom.environment(EBBTIDE_PHANTOM_PROFILE="a100-80gb"))
    if done.returncode != 0:
        sys.exit(done.stderr or f"torch_drive ended with {done.returncode}")
    print("streams  sizes up to     live   torch ns  tide ns   ratio   of 10^3: torch  tide")
    slowest, first = None, None
    for line in done.stdout.splitlines():
        streams, steps, live = map(int, line.split()[:3])
        torch_ns, tide_ns = map(float, line.split()[3:])
        if live == 1000:
            first = torch_ns, tide_ns
        ratio = torch_ns / tide_ns
        slowest = ratio if slowest is None else min(slowest, ratio)
        print(f"{streams:7} {steps * 512:10} B {live:9} {torch_ns:10.1f} {tide_ns:8.1f} {ratio:7.2f} "
              f"{torch_ns / first[0]:16.2f} {tide_ns / first[1]:5.2f}")
    print(f"the tide allocator makes at least {slowest:.2f} of torch's calls in a second")


if __name__ == "__main__":
    main()
