"""The program as tests start it: with and without a terminal, where it must succeed and where it must refuse."""

import errno
import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios

PROGRAM = os.environ.get("EBBTIDE_PROGRAM") or str(pathlib.Path(__file__).resolve().parents[3] / "build" / "ebbtide")
HAS_PHANTOM = (pathlib.Path(PROGRAM).parent / "phantom" / "cu13").is_dir()


def run(*words, **environment):
    """Without a terminal, in an environment that does not depend on the caller's terminal."""
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG")}
    return subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**kept, **environment})


def run_on_terminal(*words, width=80, **environment):
    """What appears on a terminal of that width: standard output and standard error mixed."""
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "LC_ALL", "LC_CTYPE", "LANG")}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    process = subprocess.Popen([PROGRAM, *map(str, words)], stdin=theirs, stdout=theirs, stderr=theirs,
                               env={**kept, "TERM": "xterm-256color", **environment})
    os.close(theirs)
    data = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError as error:  # the terminal's way to say that nobody writes to it any more
            assert error.errno == errno.EIO
            break
        if not piece:
            break
        data += piece
    os.close(ours)
    assert process.wait() == 0
    return data.decode().replace("\r\n", "\n")


def result_of(*words):
    """The one object on standard output of a run that must succeed silently."""
    done = run(*words, "--json")
    assert done.stderr == ""
    assert done.returncode == 0
    return json.loads(done.stdout)


def assert_refused(done, *parts):
    """Exit 2, nothing on standard output, one line on standard error that holds all parts in order."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.endswith("\n"), done.stderr
    assert re.search(".*".join(map(re.escape, parts)), done.stderr), done.stderr
