"""A Python environment with more packages, over the one that this runs in."""

import os
import pathlib
import subprocess
import sys
import tempfile

HELD = ("torch==", "torchvision==", "transformers==", "timm==")  # another version would be another program


def layered_environment(name, packages, locked=False):
    """Its Python. It is made in the cache at the first call, and again where the packages change; a file of paths lets it see those of the one below.
    `locked`: the packages are all that is needed, each at one version, and nothing is resolved."""
    cache = os.environ.get("EBBTIDE_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ebbtide"
    folder = pathlib.Path(cache) / f"{name}-{pathlib.Path(sys.prefix).name}"
    python = folder / "bin" / "python"
    listed = folder / ".complete"
    if not listed.exists() or listed.read_text() != "\n".join(packages):
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder], check=True)
        site = next((folder / "lib").glob("python*")) / "site-packages"
        own = next(path for path in sys.path if path.endswith("site-packages") and path.startswith(sys.prefix))
        (site / "base.pth").write_text(own + "\n")
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check", "--no-input"]
        held = subprocess.run([sys.executable, "-m", "pip", "freeze"], check=True, capture_output=True, text=True).stdout
        if locked:
            below = set(held.lower().splitlines())
            subprocess.run([*pip, "--no-deps", *(line for line in packages if line.lower() not in below and not line.startswith(HELD))], check=True)
            listed.write_text("\n".join(packages))
            return python
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
            constraints.write("\n".join(line for line in held.splitlines() if line.startswith(HELD)))
            constraints.flush()
            subprocess.run([*pip, "-c", constraints.name, *packages], check=True)
        listed.write_text("\n".join(packages))
    return python
