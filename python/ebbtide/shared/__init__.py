"""ebbtide.Shared: several trainings in one pool of memory. Begin reading with shared.py."""
