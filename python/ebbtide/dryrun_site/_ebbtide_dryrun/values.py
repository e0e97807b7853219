"""What the program derives from host data has its true value, and what nobody knows is assumed aloud (observer/values.h)."""

import os
import sys

from . import frames
from .launches import Launches


def observer():
    """ebbtide.phantom_observer, of the package that this file belongs to."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    folder = os.path.dirname(package)
    if folder not in sys.path:
        sys.path.append(folder)
    from ebbtide import phantom_observer

    return phantom_observer


class Followed:
    def __init__(self, assume):
        self.assume = assume
        self.values = None
        self.notes, self.left_out = [], []

    def attach(self):
        """Where the observer cannot be had, the report says so: everything read from the device is zeros then."""
        if self.values is not None or os.environ.get("EBBTIDE_DRYRUN_VALUES") == "0":
            return
        try:
            self.values = observer().Values(self.assume)
            Launches(sys.modules["torch"]).attach()
        except Exception as error:
            self.notes.append(f"values were not followed, what the program read is zeros: {frames.one_line(error)}")

    def report(self):
        if self.values is None:
            return {"assumptions": [], "values_followed": False}
        found = self.values.report()
        for entry in found["assumptions"]:
            entry["line"] = frames.short_line(entry["line"])
            entry["what"] = " ".join(frames.short_line(word) for word in entry["what"].split(" "))
        self.left_out = _nothing_selected(found["assumptions"])
        if found["left_out"]:
            self.left_out.append(f"{found['left_out']} more places where something was assumed are not listed")
        return {"assumptions": found["assumptions"], "values_followed": True}


def _nothing_selected(assumptions):
    """What a program would do with a selection costs memory; one that is empty by an assumption hides it."""
    lines = list(dict.fromkeys(entry["line"] for entry in assumptions if entry["led_to"].startswith("a size of [0")))
    if not lines:
        return []
    more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
    return [f"an assumption selects nothing at {lines[0]}{more}: what the program would do with a selection is not counted; --assume changes that"]
