"""ebbtide.estimate: what a training takes, before it runs. Begin reading with estimate.py."""
