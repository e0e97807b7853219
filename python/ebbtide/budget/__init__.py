"""ebbtide.budget: eager PyTorch within a limit of memory."""
