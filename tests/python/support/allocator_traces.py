"""The allocator model against torch's own allocator: random traces through both, and every figure compared."""

import json
import pathlib
import subprocess
import sys

from support import on_phantom
from support.command_line import PROGRAM

HERE = pathlib.Path(__file__).resolve().parent
MIB = 1 << 20

# Options of the allocator, and the device's memory in MiB.
SETTINGS = [
    ("", 600),
    ("", 2000),
    ("max_split_size_mb:20", 600),
    ("max_split_size_mb:40", 1000),
    ("max_split_size_mb:30,max_non_split_rounding_mb:40", 600),
    ("roundup_power2_divisions:4", 1000),
    ("roundup_power2_divisions:[1:2,4:8,16:1,64:4,>:2]", 1000),
    ("garbage_collection_threshold:0.5,per_process_memory_fraction:0.8", 600),
    ("garbage_collection_threshold:0.3,per_process_memory_fraction:0.9,max_split_size_mb:25", 1000),
    ("per_process_memory_fraction:0.5", 1000),
    ("large_segment_size_mb:40", 600),
    ("expandable_segments:True", 600),
    ("expandable_segments:True", 1500),
    ("expandable_segments:True,per_process_memory_fraction:0.6,garbage_collection_threshold:0.5", 600),
    ("expandable_segments:True,roundup_power2_divisions:8", 600),
    ("expandable_segments:True,max_split_size_mb:40", 600),
]
FIGURES = ["ooms", "peak_reserved_bytes", "peak_allocated_bytes", "segments", "segments_given_back",
           "final_reserved_bytes", "final_allocated_bytes"]


def make_gates(folder):
    library = folder / "gates.so"
    subprocess.run(["cc", "-O1", "-w", "-shared", "-fPIC", "-o", library, HERE / "allocator_gates.c", "-ldl", "-lpthread"],
                   check=True)
    return library


def make_profile(folder, mebibytes):
    """A device of that much memory besides its context."""
    profile = json.loads((HERE.parents[2] / "profiles" / "a100-40gb.json").read_text())
    profile["name"] = f"test-{mebibytes}"
    profile["memory_bytes"]["value"] = mebibytes * MIB + profile["context_bytes"]["value"]
    path = folder / f"{mebibytes}.json"
    path.write_text(json.dumps(profile))
    return path


def compare(folder, setting, first_seed, count, gates):
    """Runs the traces of one setting through both. A line for each that differs, how many ran out of memory, and how many
    were run a second time, alone in a process: which addresses Linux gives to ranges depends on what earlier traces left
    behind, and torch's own figures with expandable segments depend on these addresses."""
    differing, ooms = _compare_in_one_process(folder, setting, first_seed, count, gates)
    differences = []
    for seed in differing:
        alone, _ = _compare_in_one_process(folder / f"alone-{seed}", setting, seed, 1, gates)
        differences += [f"seed {seed}, {setting[0] or 'no options'}, {setting[1]} MiB: (torch, model) {figures}"
                        for figures in alone.values()]
    return differences, ooms, len(differing)


def _compare_in_one_process(folder, setting, first_seed, count, gates):
    options, mebibytes = setting
    folder.mkdir()
    profile = make_profile(folder, mebibytes)
    environment = on_phantom.environment(before=[gates], EBBTIDE_PHANTOM_PROFILE=str(profile))
    # Nothing but the phantom maps memory once the program runs, so that where it finds addresses depends on the trace alone.
    environment |= {"PYTHONMALLOC": "malloc", "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(1 << 40)}
    if options:
        environment["PYTORCH_ALLOC_CONF"] = options
    command = [sys.executable, "-W", "ignore", HERE / "allocator_program.py", folder, first_seed, count]
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    differing, ooms = {}, 0
    for torch_figures in json.loads((folder / "torch.json").read_text()):
        trace = folder / f"{torch_figures['seed']}.csv"
        words = [PROGRAM, "replay", trace, "--json", "--keep-going", "--gpu", profile, "--alloc-conf", options]
        replayed = subprocess.run(list(map(str, words)), capture_output=True, text=True)
        assert replayed.returncode == (1 if json.loads(replayed.stdout)["oom"] else 0), replayed.stderr
        ours = json.loads(replayed.stdout)
        ooms += torch_figures["ooms"] > 0
        different = {name: (torch_figures[name], ours[name]) for name in FIGURES if torch_figures[name] != ours[name]}
        if different:
            differing[torch_figures["seed"]] = different
    return differing, ooms
