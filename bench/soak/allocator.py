"""10,000 random traces through torch's own allocator on the phantom GPU and through our model of it: the same requests
fail, the same peaks, the same number of segments. Prints what was run; fails where anything differs."""

import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "python"))

from support import (
    allocator_traces,  # noqa: E402
    on_phantom,  # noqa: E402
)

TRACES = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000


def main():
    if not (on_phantom.LIBRARIES / "cu13").is_dir():
        sys.exit("the build has no phantom GPU")
    settings = allocator_traces.SETTINGS
    begin, run, with_oom, again, different = time.monotonic(), 0, 0, 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        gates = allocator_traces.make_gates(folder)
        for number, setting in enumerate(settings):
            count = TRACES * (number + 1) // len(settings) - TRACES * number // len(settings)
            differences, ooms, repeated = allocator_traces.compare(
                folder / str(number), setting, 100_000 * (number + 1), count, gates
            )
            run, with_oom, again, different = run + count, with_oom + ooms, again + repeated, different + differences
            print(f"{count:6} traces, {ooms:5} out of memory, {repeated} run again alone, {len(differences)} differ: "
                  f"{setting[0] or 'no options'}, {setting[1]} MiB", flush=True)
    for line in different[:20]:
        print(line)
    print(f"allocator: {run} traces ({with_oom} out of memory), {again} run again alone, {len(different)} differ, {time.monotonic() - begin:.0f} s")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
