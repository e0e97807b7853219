#!/usr/bin/env bash
# The Python tests that go with torch 2.6: captures, training within a budget and snapshots there, and programs of that torch, which is
# for CUDA 12, on the phantom GPU. Makes the environment of torch26.lock at the first run.
#   torch26.sh [WORDS ...]   words for pytest, to choose among them
set -euo pipefail
cd "$(dirname "$0")/../.."
own=$(scripts/setup-python bench/soak/torch26.lock)/bin/python
tests=tests/python
with_torch26=("$tests"/test_{capture,capture_bits,capture_eager,capture_optimizers,rebatch,package,snapshot,run,budget}.py)
# Not with these versions: BERT of transformers 4.51 looks at values, its T5 makes tensors of numbers in the forward pass; torch 2.6 makes
# no fake tensor of a constant that has one.
without=(
  --deselect "$tests/test_capture.py::test_constants_keep_their_values"
  --deselect "$tests/test_capture_bits.py::test_bert"
  --deselect "$tests/test_capture_eager.py::test_captured_ops_are_those_that_run"
  --deselect "$tests/test_rebatch.py::test_any_batch_is_what_a_capture_gives[bert]"
  --deselect "$tests/test_rebatch.py::test_any_batch_is_what_a_capture_gives[t5]"
  --deselect "$tests/test_run.py::test_models[bert]"
)
status=0
PYTHONPATH=build/python-path "$own" -m pytest -n "$(nproc)" --dist loadfile -o cache_dir=build/pytest-cache-torch26 \
  "${with_torch26[@]}" "${without[@]}" "$@" || status=1
# These start the programs alone with the other torch.
EBBTIDE_TORCH12_PYTHON=$own build/python -m pytest -n "$(nproc)" --dist loadfile "$tests"/test_phantom_{libraries,cudnn}.py -k cu12 "$@" || status=1
[ $status -eq 0 ] && echo "torch26: all passed" || echo "torch26: FAILED"
exit $status
