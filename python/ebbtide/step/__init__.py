"""ebbtide.step: one training step within a budget of memory. Begin reading with step.py."""
