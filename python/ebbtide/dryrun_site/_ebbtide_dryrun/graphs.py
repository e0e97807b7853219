"""Updates that were captured into a CUDA graph: each replay is as many steps as the capture had updates."""

import weakref


class Graphs:
    def __init__(self, torch, replayed):
        """`replayed` is called for each update of a graph that is replayed."""
        self.torch = torch
        self.replayed = replayed
        self.updates = weakref.WeakKeyDictionary()  # by torch.cuda.CUDAGraph
        self.captured = 0  # since the last capture began

    def attach(self):
        kind = getattr(self.torch.cuda, "CUDAGraph", None)
        if kind is None or not all(hasattr(kind, name) for name in ("capture_begin", "capture_end", "replay")):
            return
        begin, end, replay = kind.capture_begin, kind.capture_end, kind.replay

        def capture_begin(graph, *arguments, **keywords):
            self.captured = 0
            return begin(graph, *arguments, **keywords)

        def capture_end(graph, *arguments, **keywords):
            out = end(graph, *arguments, **keywords)
            if self.captured:
                self.updates[graph] = self.captured
            return out

        def replay_steps(graph, *arguments, **keywords):
            out = replay(graph, *arguments, **keywords)
            for _ in range(self.updates.get(graph, 0)):
                self.replayed()
            return out

        kind.capture_begin, kind.capture_end, kind.replay = capture_begin, capture_end, replay_steps

    def is_captured(self):
        """Asked behind an update: whether it was only captured, and will run when the graph is replayed."""
        if not (self.torch.cuda.is_initialized() and self.torch.cuda.is_current_stream_capturing()):
            return False
        self.captured += 1
        return True
