"""Programs that train with Ebbtide on device cuda, on the phantom GPU with its race checker."""

import json
import os
import textwrap

from support.on_phantom import CALM_END, importable, run_program, statistics_in

HEAD = CALM_END + """\
import ctypes, json, torch
from torch.nn import functional as F
import ebbtide
from support import run_models
phantom = ctypes.CDLL(None)
torch.manual_seed(0)

class Cnn:
    def __init__(self, batch=64):
        self.model = run_models.SmallCNN().cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.batch = tuple(t.cuda() for t in run_models._images(batch, 32, 10))
    def step(self, **options):
        return ebbtide.step(self.model, F.cross_entropy, self.optimizer, self.batch, device="cuda", **options)

def races():
    return phantom.ebbtide_phantom_race_count()
"""


def run(code, folder, **variables):
    """What the program printed, as JSON, and the phantom's statistics."""
    cache = os.environ.get("EBBTIDE_TEST_CACHE") or str(folder.parent / "cuda-cache")
    said = run_program(HEAD + textwrap.dedent(code).lstrip("\n"), folder, **{
        "EBBTIDE_PHANTOM_CHECK": "race", "EBBTIDE_PHANTOM_KERNEL_US": "100", "XDG_CACHE_HOME": cache, "PYTHONPATH": importable(), **variables})
    return json.loads(said.stdout.splitlines()[-1]), next(statistics for statistics in statistics_in(folder) if statistics["launches"])
