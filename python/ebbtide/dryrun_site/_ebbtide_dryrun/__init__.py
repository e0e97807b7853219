"""Inside a program that runs under `ebbtide dryrun`: what torch's allocator did, step by step, written at the end.

Works with the program's own torch and Python, whichever they are, and changes nothing of what the program computes.
"""

from . import ends
from .watch import Watch


def begin(torch, variables, late=False):
    """Called once, when torch has been imported. Does not touch CUDA: a program may fork before it does.

    `late`: the program has run for a while, and may have modules already.
    """
    watch = Watch(
        torch,
        folder=variables["EBBTIDE_DRYRUN"],
        stop_after=int(variables.get("EBBTIDE_DRYRUN_STOP") or 0),
        snapshot=bool(variables.get("EBBTIDE_DRYRUN_SNAPSHOT")),
        check=variables.get("EBBTIDE_PHANTOM_CHECK") or "",
        assume=variables.get("EBBTIDE_DRYRUN_ASSUME") or "",
    )
    ends.call_at_the_end(watch.finish, watch.reset)
    watch.attach(late)
