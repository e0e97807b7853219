"""`ebbtide replay` as a user runs it: exit codes, one-line errors, JSON fields, all forms of traces."""

import gzip
import json
import os
import pickle
import subprocess

import pytest
from support.command_line import PROGRAM

MIB = 1 << 20
OWN = "action,id,bytes,stream\nalloc,a,31457280,0\nalloc,b,1000,0\nfree,a\nalloc,c,41943040,0\n"


def replay(*words):
    return subprocess.run([PROGRAM, "replay", *map(str, words)], capture_output=True, text=True,
                          env={**os.environ, "COLUMNS": "80"})


def test_the_table_and_the_object(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text(OWN)
    done = replay(trace)
    assert (done.returncode, done.stderr) == (0, "")
    assert "peak reserved" in done.stdout and "72.00 MiB" in done.stdout and "reserved over the trace" in done.stdout
    result = json.loads(replay(trace, "--json").stdout)
    # 30 and 40 MiB for the large ones, 2 MiB for the small one; the first is not large enough for the last.
    assert result["peak_reserved_bytes"] == 72 * MIB
    assert result["peak_allocated_bytes"] == 40 * MIB + 1024
    assert result["segments"] == 3 and result["segment_bytes"] == [30 * MIB, 2 * MIB, 40 * MIB]
    assert result["oom"] is False and result["recorded"] is None


@pytest.mark.parametrize("allocator, peak", [
    ("pytorch", 72 * MIB), ("pytorch-expandable", 42 * MIB), ("cuda-malloc-async", 96 * MIB),
    ("no-fragmentation", 40 * MIB + 1024),
])
def test_models_differ(tmp_path, allocator, peak):
    """Expandable: 40 MiB of pages and 2 MiB. cudaMallocAsync: 32 MiB hold the first two, 40 MiB become 64."""
    trace = tmp_path / "trace.csv.gz"
    trace.write_bytes(gzip.compress(OWN.encode()))
    assert json.loads(replay(trace, "--json", "--allocator", allocator).stdout)["peak_reserved_bytes"] == peak


def test_out_of_memory_is_exit_1(tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text(OWN.replace("free,a\n", ""))
    done = replay(trace, "--capacity", "60MiB", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    result = json.loads(done.stdout)
    assert result["oom"] is True and result["failed_at"] == {"line": 4, "bytes": 40 * MIB, "stream": "0"}
    assert "out of memory   at line 4: 40.00 MiB on stream 0" in replay(trace, "--capacity", "60MiB").stdout


@pytest.mark.parametrize("content, message", [
    ("", "expected a trace, found an empty file"),
    ("a,b\n1,2\n", "line 1: expected a header"),
    (OWN + "free,a\n", "line 6: expected the id of a block that is allocated and not freed"),
    ("action,id,bytes,stream\nalloc,a,-1,0\n", "line 2: expected a number of bytes from 0 on"),
    ("action,addr,size\nalloc,1000,512\nalloc,1100,512\n", "line 3: a block of 512 bytes at address 1100 overlaps"),
    (pickle.dumps({"device_traces": print}), "which is not executed here"),
    (pickle.dumps({"device_traces": [[]]}), "no history"),
    (pickle.dumps({"device_traces": [[{"action": "alloc"}]]}), "device_traces[0][0]: expected size"),
])
def test_bad_traces_are_one_line_and_exit_2(tmp_path, content, message):
    trace = tmp_path / "trace"
    trace.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = replay(trace)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and done.stderr.startswith(f"ebbtide replay: {trace}: ")
    assert message in done.stderr


@pytest.mark.parametrize("words, message", [
    ([], "expected a TRACE"),
    (["t", "--allocator", "pytoch"], "did you mean pytorch"),
    (["t", "--capacity", "8GBs"], "--capacity: "),
    (["t", "--gpu", "a100-40"], "did you mean a100-40gb"),
    (["t", "--gpu", "a100-40gb", "--capacity", "1GiB"], "only one of"),
    (["t", "--alloc-conf", "max_split_size_mb:1"], "--alloc-conf: max_split_size_mb: expected"),
    (["t"], "t: no such file"),
])
def test_bad_flags(words, message):
    done = replay(*words)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
