"""ebbtide run --gpu-share: programs wait for room on a GPU; torch's allocator keeps to the share."""

import json
import os
import subprocess
import sys

import pytest
from support.command_line import PROGRAM, assert_refused

GPU = ("--gpu", "rtx3060")  # 12 GiB


@pytest.fixture
def share(tmp_path):
    environment = {**os.environ, "EBBTIDE_SHARE_FOLDER": str(tmp_path / "shares")}

    def start(*words, **options):
        return subprocess.Popen([PROGRAM, "run", "--gpu-share", *GPU, *map(str, words)], env=environment, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    return start


def test_the_second_waits_for_the_first_and_says_so(share):
    first = share("--memory", "8GiB", "--", "cat")
    first.stdin.write("x\n")
    first.stdin.flush()
    assert first.stdout.readline() == "x\n"  # it runs
    second = share("--memory", "8GiB", "--", sys.executable, "-c", "print('mine')")
    said = second.stderr.readline()
    assert "waits for 8.00 GiB" in said and "8.00 GiB by" in said
    first.stdin.close()
    assert first.wait() == 0
    assert second.communicate()[0] == "mine\n" and second.returncode == 0


def test_who_is_killed_frees_its_share(share):
    first = share("--memory", "8GiB", "--", "cat", start_new_session=True)
    first.stdin.write("x\n")
    first.stdin.flush()
    first.stdout.readline()
    os.killpg(first.pid, 9)
    first.wait()
    second = share("--memory", "8GiB", "--json", "--", "true")
    result = json.loads(second.communicate()[0])
    assert (second.returncode, result["exit_code"], result["memory_bytes"]) == (0, 0, 8 * 2**30)


def test_the_exit_code_is_the_program_s(share):
    assert share("--memory", "1GiB", "--", "sh", "-c", "exit 7").wait() == 7


@pytest.mark.parametrize(("words", "says"), [
    (["--memory", "13GiB", "--", "true"], "at most what the GPU has"),
    (["--memory", "1MiB", "--", "true"], "expected more than a context"),
    (["--memory", "x", "--", "true"], "--memory"),
    (["--memory", "1GiB"], "expected -- and the program"),
])
def test_refused(words, says):
    done = subprocess.run([PROGRAM, "run", "--gpu-share", *GPU, *words], capture_output=True, text=True)
    assert_refused(done, says)


def test_torch_keeps_to_the_share(share, tmp_path):
    """On the phantom: 2 GiB, its context among it; a tensor of 1 GiB fits, a second does not."""
    program = tmp_path / "program.py"
    program.write_text("import torch\nkeep = [torch.empty(2**30, dtype=torch.uint8, device='cuda')]\nprint('one', flush=True)\n"
                       "keep.append(torch.empty(2**30, dtype=torch.uint8, device='cuda'))\nprint('two')\n")
    run = share("--memory", "2GiB", "--", PROGRAM, "dryrun", *GPU, "-q", "--", sys.executable, program)
    out, errors = run.communicate()
    assert out == "one\n" and run.returncode == 1 and "OutOfMemoryError" in errors


def test_without_memory_a_dry_run_tells(share, tmp_path):
    """The program itself finds no GPU here, or the real one; what it was given is what counts."""
    program = tmp_path / "program.py"
    program.write_text("import torch\nmodel = torch.nn.Linear(4096, 4096).cuda()\nupdate = torch.optim.Adam(model.parameters())\n"
                       "for _ in range(4):\n    model(torch.ones(8, 4096, device='cuda')).sum().backward()\n    update.step()\n")
    run = share("--json", "--", sys.executable, program)
    result = json.loads(run.communicate()[0])
    assert 4 * 4 * 4096**2 < result["memory_bytes"] < 2**30  # weights, gradients and two states, and a context
