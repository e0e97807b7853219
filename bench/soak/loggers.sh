#!/usr/bin/env bash
# ebbtide.loggers with the real tensorboard and wandb, offline. Puts them into a folder of their own beside the Python environment, by the
# names of loggers.in, at the first run.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=${EBBTIDE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ebbtide}
packages=$cache/loggers-$( (cat bench/soak/loggers.in && build/python --version) | sha256sum | cut -c 1-16)
if [ ! -e "$packages/.complete" ]; then
  rm -rf "$packages"
  build/python -m pip install --quiet --disable-pip-version-check --no-input --target "$packages" -r bench/soak/loggers.in
  touch "$packages/.complete"
fi
# At the end of the path: what both have is the environment's.
before=$(build/python -c 'import sys; print(":".join(path for path in sys.path if path))')
log=$(mktemp)
trap 'rm -f "$log"' EXIT
PYTHONPATH=build/python-path:$before:$packages build/python -m pytest -q -rs tests/python/test_loggers.py >"$log" 2>&1 || { cat "$log" && echo "loggers: FAILED" && exit 1; }
tail -n 1 "$log"
if grep -q skipped "$log"; then
  echo "loggers: FAILED, a test was skipped"
  exit 1
fi
echo "loggers: all passed"
