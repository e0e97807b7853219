"""The set-up scripts of `make`, run in a copy of them with stand-ins for the machine's Python, packages and user."""

import os
import shutil
import subprocess
import sys

import pytest


@pytest.fixture
def sandbox(tmp_path, checkout):
    """A folder with our scripts, an empty lock file, and bin/ first on PATH."""
    shutil.copytree(checkout / "scripts", tmp_path / "scripts")
    (tmp_path / "requirements.lock").write_text("# nothing\n")
    (tmp_path / "bin").mkdir()
    return tmp_path


def stand_in(sandbox, name, text):
    path = sandbox / "bin" / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def run(sandbox, *words, **variables):
    environment = {
        **os.environ,
        "PATH": f"{sandbox / 'bin'}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "EBBTIDE_CACHE": str(sandbox / "cache"),
        **variables,
    }
    return subprocess.run(words, cwd=sandbox, env=environment, capture_output=True, text=True)


def test_an_old_python_is_named_with_its_version(sandbox):
    stand_in(sandbox, "python3.11", "exit 127")
    stand_in(sandbox, "python3", "echo 3 9 /usr/bin/python3")
    result = run(sandbox, "scripts/find-python", PYTHON="")
    assert result.returncode == 2
    assert result.stdout == ""
    assert "expected Python 3.11 or later, found no python3.11, python3 is 3.9." in result.stderr


def test_a_python_that_is_asked_for_is_not_replaced_by_another(sandbox):
    stand_in(sandbox, "python3.11", f'exec "{sys.executable}" "$@"')
    result = run(sandbox, "scripts/find-python", PYTHON="/nowhere/python")
    assert result.returncode == 2
    assert "found no /nowhere/python." in result.stderr


@pytest.fixture
def machine(sandbox):
    """A machine with dpkg-query and apt-get of our own: cmake is installed, apt-get installs what it is told to."""
    (sandbox / "list.txt").write_text("# comment\ncmake cmake\nlibnone-dev none/no_such_header.h\n")
    stand_in(sandbox, "dpkg-query", "echo cmake installed; echo libnone-dev not-installed; exit 1")
    stand_in(sandbox, "apt-get", f'echo "$@" >>"{sandbox}/apt"; echo working')
    stand_in(sandbox, "id", "echo 0")
    return sandbox


def test_missing_packages_are_installed_by_root_in_one_go(machine):
    result = run(machine, "scripts/setup-packages", "list.txt")
    assert result.returncode == 0, result.stderr
    update, install = (machine / "apt").read_text().splitlines()
    assert update == "update"
    assert install.startswith("install --no-install-recommends libnone-dev -y")
    assert result.stdout == ""
    assert result.stderr == "set-up: installing Debian packages: libnone-dev\n"


def test_without_root_the_message_is_the_command_to_run(machine):
    stand_in(machine, "id", "echo 1000")
    result = run(machine, "scripts/setup-packages", "list.txt")
    assert result.returncode == 2
    assert not (machine / "apt").exists()
    assert result.stderr.splitlines() == [
        "set-up: missing Debian packages: libnone-dev",
        "set-up: install them as root (sudo apt-get install --no-install-recommends libnone-dev) and run make again",
    ]


def test_a_failed_installation_shows_the_end_of_its_log(machine):
    stand_in(machine, "apt-get", "echo E: no network; exit 100")
    result = run(machine, "scripts/setup-packages", "list.txt")
    assert result.returncode == 2
    assert "E: no network" in result.stderr
    assert "could not install Debian packages" in result.stderr.splitlines()[-1]


def test_what_is_there_from_another_source_is_not_asked_for(machine):
    # Neither dpkg nor apt-get knows of these: a header of the compiler's own, a command on PATH.
    (machine / "list.txt").write_text("libnone-dev stdio.h\nsome-tool ls\n")
    stand_in(machine, "id", "echo 1000")
    result = run(machine, "scripts/setup-packages", "list.txt")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_environment_is_made_once_per_lock_file(sandbox):
    first = run(sandbox, "scripts/setup-python")
    assert first.returncode == 0, first.stderr
    environment = first.stdout.strip()
    assert environment.startswith(str(sandbox / "cache" / "env-"))
    subprocess.run([f"{environment}/bin/python", "-c", "import pip"], check=True)

    mark = os.path.join(environment, "mark")
    open(mark, "w").close()
    again = run(sandbox, "scripts/setup-python")
    assert (again.stdout, again.stderr) == (first.stdout, "")
    assert os.path.exists(mark)

    # An interrupted set-up has no .complete: it is begun anew.
    os.remove(os.path.join(environment, ".complete"))
    repaired = run(sandbox, "scripts/setup-python")
    assert repaired.stdout == first.stdout
    assert not os.path.exists(mark)


def test_two_set_ups_at_a_time_make_one_environment(sandbox):
    words = ["scripts/setup-python"]
    environment = {**os.environ, "PYTHON": sys.executable, "EBBTIDE_CACHE": str(sandbox / "cache")}
    both = [
        subprocess.Popen(words, cwd=sandbox, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outputs[0][0] == outputs[1][0]
    made = "".join(errors for _, errors in outputs).count("making the Python environment")
    assert made == 1


def test_a_package_that_cannot_be_had_leaves_no_environment_behind(sandbox):
    (sandbox / "requirements.lock").write_text("no-such-package-of-ebbtide==0.0.0\n")
    # No index and no links: what pip finds does not depend on the machine.
    result = run(sandbox, "scripts/setup-python", PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert result.returncode == 2
    assert "no-such-package-of-ebbtide" in result.stderr
    assert "could not make the Python environment" in result.stderr.splitlines()[-1]
    assert not list(sandbox.glob("cache/env-*/.complete"))
