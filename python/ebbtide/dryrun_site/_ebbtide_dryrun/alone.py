"""One rank of many: the others do not run, and are taken to do as this one does.

The phantom's NCCL stands in for them on the device. Here are the other places where ranks meet: the store behind the
rendezvous, process groups on the CPU, and objects that one rank gives to all.
"""

import os


def attach(torch, c10d, notes):
    store = _make_store(torch.distributed)
    original = c10d.init_process_group

    def rendezvous(url=None, rank=-1, world_size=-1, **keywords):
        number = rank if rank is not None and rank >= 0 else int(os.environ["RANK"])
        count = world_size if world_size is not None and world_size > 0 else int(os.environ["WORLD_SIZE"])
        yield store, number, count

    def init_process_group(*arguments, **keywords):
        # With a device, communicators of parts would be split off, and NCCL is not told who else is in a part.
        keywords.pop("device_id", None)
        original(*arguments, **keywords)
        if getattr(c10d._get_default_group(), "bound_device_id", None) is not None:  # torch 2.15 finds one by itself
            c10d._get_default_group().bound_device_id = None

    c10d.rendezvous = rendezvous
    c10d.init_process_group = torch.distributed.init_process_group = init_process_group
    if hasattr(c10d, "split_group"):
        c10d.split_group = torch.distributed.split_group = _make_split_group(torch.distributed)
    for name in ("TCPStore", "FileStore"):
        if hasattr(torch.distributed, name):
            setattr(torch.distributed, name, lambda *arguments, **keywords: store)
    if hasattr(c10d, "ProcessGroupGloo"):
        _replace_gloo(torch, c10d)
    _replace_objects(torch.distributed, c10d, notes)


def _make_split_group(distributed):
    def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, backend=None):
        """The part that this rank is in, as a group of its own."""
        parent = parent_pg or distributed.group.WORLD
        mine = next((part for part in split_ranks or () if distributed.get_rank(parent) in part), None)
        if mine is None:
            return distributed.GroupMember.NON_GROUP_MEMBER
        ranks = [distributed.get_global_rank(parent, rank) for rank in mine]
        return distributed.new_group(ranks, timeout=timeout, backend=backend, pg_options=pg_options, group_desc=group_desc)

    return split_group


def _make_store(distributed):
    class Store(distributed.Store):
        """Keys that absent ranks would have set are there as soon as they are asked for."""

        _ABSENT = b"\0" * 128  # as long as an id of NCCL, the one content that torch takes from another rank

        def __init__(self):
            super().__init__()
            self.values = {}

        def set(self, key, value):
            self.values[key] = value.encode() if isinstance(value, str) else bytes(value)

        def get(self, key):
            return self.values.get(key, self._ABSENT)

        def compare_set(self, key, expected, desired):
            if self.values.get(key, b"") == (expected.encode() if isinstance(expected, str) else bytes(expected)):
                self.set(key, desired)
            return self.get(key)

        def add(self, key, amount):
            total = int(self.values.get(key, b"0")) + amount
            self.values[key] = str(total).encode()
            return total

        def check(self, keys):
            return all(key in self.values for key in keys)

        def wait(self, keys, timeout=None):
            return None

        def delete_key(self, key):
            return self.values.pop(key, None) is not None

        def num_keys(self):
            return len(self.values)

        def append(self, key, value):
            self.values[key] = self.values.get(key, b"") + (value.encode() if isinstance(value, str) else bytes(value))

        def multi_get(self, keys):
            return [self.get(key) for key in keys]

        def multi_set(self, keys, values):
            for key, value in zip(keys, values):
                self.set(key, value)

        def has_extended_api(self):
            return True

    return Store()


def _replace_gloo(torch, c10d):
    """Gloo connects to every rank when it is made. Torch's own stand-in gathers a rank's own values."""
    fake = getattr(torch._C._distributed_c10d, "FakeProcessGroup", None)
    if fake is None:
        return

    def gloo(store, rank, size, *arguments, **keywords):
        make = getattr(fake, "_create_internal", fake)
        return make(rank, size)

    for name in ("_Options", "Options", "create_device", "create_default_device"):
        if hasattr(c10d.ProcessGroupGloo, name):
            setattr(gloo, name, getattr(c10d.ProcessGroupGloo, name))
    c10d.ProcessGroupGloo = gloo


def _replace_objects(distributed, c10d, notes):
    broadcast, scatter = c10d.broadcast_object_list, c10d.scatter_object_list

    def note(what):
        text = f"{what} of a rank that does not run: this rank kept its own"
        if text not in notes:
            notes.append(text)

    def broadcast_object_list(object_list, src=None, group=None, *arguments, **keywords):
        if src is None or src == distributed.get_rank():
            return broadcast(object_list, src, group, *arguments, **keywords)
        note("objects broadcast")

    def scatter_object_list(output, given=None, src=None, group=None, *arguments, **keywords):
        if src is None or src == distributed.get_rank():
            return scatter(output, given, src, group, *arguments, **keywords)
        output[0] = given[distributed.get_rank(group)] if given else None
        note("objects scattered")

    c10d.broadcast_object_list = distributed.broadcast_object_list = broadcast_object_list
    c10d.scatter_object_list = distributed.scatter_object_list = scatter_object_list
    if hasattr(c10d, "monitored_barrier"):
        c10d.monitored_barrier = distributed.monitored_barrier = lambda *arguments, **keywords: None
