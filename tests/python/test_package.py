"""The package as a checkout has it: the compiled core, and the command."""

import json
import re
import subprocess
import sys

import pytest

import ebbtide
import ebbtide.native

# One op that yields the only activation: 2 * 3 floats of 4 bytes.
GRAPH = """{
  "format": "ebbtide.graph", "version": 1, "name": "tiny",
  "storages": [{"kind": "input", "bytes": 24}, {"kind": "activation", "bytes": 24}],
  "tensors": [{"storage": 0, "dtype": "float32", "shape": [2, 3]}, {"storage": 1, "dtype": "float32", "shape": [2, 3]}],
  "ops": [{"kind": "relu", "inputs": [0], "outputs": [1]}],
  "outputs": [1]
}"""


def test_version_is_the_project_s(checkout):
    project = re.search(r"project\(ebbtide VERSION ([0-9.]+)", (checkout / "CMakeLists.txt").read_text()).group(1)
    assert ebbtide.native.version() == ebbtide.__version__ == project


def test_the_exceptions_are_exported():
    for name in ("BudgetError", "CaptureError", "PlanError"):
        assert issubclass(getattr(ebbtide, name), ValueError), name
    assert issubclass(ebbtide.SharedError, RuntimeError)
    assert ebbtide.BudgetError("too little", 7).minimum_budget_bytes == 7


def test_functions_stay_functions_when_their_packages_are_imported():
    code = """
import ebbtide
import ebbtide.capture.errors, ebbtide.step.gradients, ebbtide.budget.budget, ebbtide.estimate.pickled_model
for name in ("capture", "step", "budget", "estimate"):
    assert type(getattr(ebbtide, name)).__name__ == "function", name
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_graph_is_read_to_its_canonical_text(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(GRAPH)
    text = ebbtide.native.Graph.read(str(path)).to_json()
    assert json.loads(text)["ops"][0]["kind"] == "relu"
    path.write_text(text)
    assert ebbtide.native.Graph.read(str(path)).to_json() == text


def test_a_wrong_graph_is_a_value_error_of_one_line(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(GRAPH.replace('"bytes": 24', '"bytes": -24', 1))
    with pytest.raises(ValueError) as error:
        ebbtide.native.Graph.read(str(path))
    assert str(error.value).startswith(f"{path}: storages[0].bytes: expected ")
    assert "\n" not in str(error.value)


def test_importing_the_package_does_not_import_torch():
    code = "import sys, ebbtide, ebbtide.native; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_module_is_the_program():
    words = [sys.executable, "-m", "ebbtide", "models", "--no-such-flag"]
    result = subprocess.run(words, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "--no-such-flag" in result.stderr
