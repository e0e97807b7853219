"""A captured step in Inductor's kernels. Begin reading with fuse.py; docs/inductor.md tells how it is made."""
