"""Real processes that train on the CPU within a budget, four ranks of DDP and of FSDP2: every rank must have the bits that it has
with torch.compile(backend="aot_eager") in the place of Ebbtide's, and keep its budget.

  gloo_ranks.py [RANKS]   4 if none is given
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "python" / "programs" / "gloo_ranks.py"
BUDGETS = ("70%", "50%")


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    with tempfile.TemporaryDirectory() as name:
        out = pathlib.Path(name) / "out"
        subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), PROGRAM, ",".join(BUDGETS), out,
                        "compiled"], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        outcomes = [json.loads(pathlib.Path(f"{out}.{rank}").read_text()) for rank in range(ranks)]
    failed = 0
    for layout in ("ddp", "fsdp"):
        for budget in BUDGETS:
            found = [outcome[f"{layout} {budget}"] for outcome in outcomes]
            same = sum(is_same for is_same, _ in found)
            # Reports of every budget so far: the tightest is this one's.
            kept = sum(bool(reports) and all(peak <= limit < plain for peak, limit, plain in reports)
                       and min(limit / plain for _, limit, plain in reports) <= float(budget[:-1]) / 100 for _, reports in found)
            print(f"{layout:4} at {budget}: {same} of {ranks} ranks have the same bits, {kept} kept the budget")
            failed += same < ranks or kept < ranks
    print(f"gloo_ranks: {4 - failed} of 4 layouts and budgets on {ranks} ranks as they must be")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
