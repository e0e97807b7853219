"""The package as a checkout has it: the compiled core, and the command."""

import re
import subprocess
import sys

import ebbtide
import ebbtide._core


def test_version_is_the_project_s(checkout):
    project = re.search(r"project\(ebbtide VERSION ([0-9.]+)", (checkout / "CMakeLists.txt").read_text()).group(1)
    assert ebbtide._core.version() == project


def test_importing_the_package_does_not_import_torch():
    code = "import sys, ebbtide, ebbtide._core; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_module_is_the_program():
    words = [sys.executable, "-m", "ebbtide", "models", "--no-such-flag"]
    result = subprocess.run(words, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stdout == ""
    assert "--no-such-flag" in result.stderr
