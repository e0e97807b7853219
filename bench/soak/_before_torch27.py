"""A plugin of pytest for torch before 2.7: what decides between Adam and AdamW is a class there, and a group's flag since then. Users of older
versions set the flag, as bench/estimate/_capture_worker.py does; with this, tests need not."""

import torch

_add = torch.optim.Optimizer.add_param_group


def add_param_group(self, group):
    _add(self, group)
    if isinstance(self, (torch.optim.Adam, torch.optim.AdamW)):
        self.param_groups[-1].setdefault("decoupled_weight_decay", isinstance(self, torch.optim.AdamW))


torch.optim.Optimizer.add_param_group = add_param_group
