"""python -m support.oracle FIRST [COUNT] [--way step|compile|budget|shared]: programs from seed FIRST on, told one by one.
python -m support.oracle --without-guards: each guard taken out once, to see that the oracle would notice."""

import argparse
import sys

from .many import main, without_guards
from .program import WAYS

parser = argparse.ArgumentParser(prog="support.oracle", description="Programs by seed, each by plain PyTorch and by a way into Ebbtide")
parser.add_argument("first", type=int, nargs="?", default=0)
parser.add_argument("count", type=int, nargs="?", default=1)
parser.add_argument("--way", choices=WAYS)
parser.add_argument("-q", "--quiet", action="store_true", help="only what differs, and the last line")
parser.add_argument("--without-guards", action="store_true", help="take each guard out once; fails where that makes no difference")
options = parser.parse_args()
sys.exit(without_guards() if options.without_guards else main(options.first, options.count, options.way, verbose=not options.quiet))
