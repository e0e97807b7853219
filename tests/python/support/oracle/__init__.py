"""The oracle: training programs by number, each run by plain PyTorch and by a way into Ebbtide, bit against bit.

`program.py` makes a program of a seed from the tables of `models.py`, `optimizers.py`, `contexts.py` and `mutations.py`; `run.py`
runs and compares it. One program again: `build/python -m support.oracle SEED` in tests/python, with --way for another way in.
"""
