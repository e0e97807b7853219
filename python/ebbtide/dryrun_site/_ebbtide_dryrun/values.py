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
        if found["left_out"]:
            self.left_out = [f"{found['left_out']} more places where something was assumed are not listed"]
        return {"assumptions": found["assumptions"], "values_followed": True}
