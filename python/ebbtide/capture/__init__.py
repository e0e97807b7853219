"""ebbtide.capture: one training step as a graph. Begin reading with step.py."""
