"""python -m support.oracle FIRST [COUNT] [--way step|compile|budget|shared]: programs from seed FIRST on, told one by one."""

import argparse
import sys

from .many import main
from .program import WAYS

parser = argparse.ArgumentParser(prog="support.oracle", description="Programs by seed, each by plain PyTorch and by a way into Ebbtide")
parser.add_argument("first", type=int)
parser.add_argument("count", type=int, nargs="?", default=1)
parser.add_argument("--way", choices=WAYS)
parser.add_argument("-q", "--quiet", action="store_true", help="only what differs, and the last line")
options = parser.parse_args()
sys.exit(main(options.first, options.count, options.way, verbose=not options.quiet))
