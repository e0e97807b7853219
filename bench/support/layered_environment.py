"""A Python environment with more packages, over the one that this runs in."""

import os
import pathlib
import subprocess
import sys
import tempfile

AT_ONCE = 12  # packages of one call of pip
HELD = ("torch==", "torchvision==", "transformers==", "timm==")  # another version would be another program


def layered_environment(name, packages, locked=False):
    """Its Python. It is made in the cache at the first call, and again where packages went; new ones are added to what is there. A file of paths lets
    it see the packages of the one below.
    `locked`: the packages are all that is needed, each at one version, and nothing is resolved."""
    cache = os.environ.get("EBBTIDE_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ebbtide"
    folder = pathlib.Path(cache) / f"{name}-{pathlib.Path(sys.prefix).name}"
    python = folder / "bin" / "python"
    listed = folder / ".complete"
    present = listed.read_text().split("\n") if listed.exists() else []
    if present == packages:
        return python
    if locked or not present or not set(present) <= set(packages):
        present = []
        listed.unlink(missing_ok=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
        site = next((folder / "lib").glob("python*")) / "site-packages"
        own = next(path for path in sys.path if path.endswith("site-packages") and path.startswith(sys.prefix))
        (site / "base.pth").write_text(own + "\n")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check", "--no-input"]
    below = subprocess.run([sys.executable, "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout.splitlines()
    if locked:
        there = {line.lower() for line in below}
        subprocess.run([*pip, "--no-deps", *(line for line in packages if line.lower() not in there and not line.startswith(HELD))], check=True)
        listed.write_text("\n".join(packages))
        return python
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(line for line in below if line.startswith(HELD)))
        constraints.flush()
        # A few at a time: each share that was installed is kept, should a later one fail.
        missing = [package for package in packages if package not in present]
        for first in range(0, len(missing), AT_ONCE):
            subprocess.run([*pip, "-c", constraints.name, *missing[first:first + AT_ONCE]], check=True)
            present += missing[first:first + AT_ONCE]
            listed.write_text("\n".join(present))
    listed.write_text("\n".join(packages))
    return python
