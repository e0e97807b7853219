"""Steps of programs that update their parameters by hand, without a torch.optim.Optimizer.

A step is what repeats: the line that called backward first calls it again, and what it left in the gradients was used in
between (cleared, replaced, changed). Passes that add to the gradients of the one before are of the same step.
"""

_PASSES_LOOKED_AT = 3
_MOST_NODES = 200_000


class ByHand:
    def __init__(self, owners):
        self.owners = owners
        self.line = None  # that called backward first
        self.ended_at = None  # allocations behind its last pass; None: there was none
        self.gradient = None  # of some parameter after that pass: (parameter, gradient's identity, version)
        self.passes = 0

    def is_next_step(self, line):
        """Asked when backward begins."""
        if self.ended_at is None or line != self.line:
            return False
        if self.gradient is None:
            return True  # gradients that are returned, not kept
        parameter, identity, version = self.gradient
        with self.owners.lock:
            if self.owners.others_train():
                return False  # the gradient may be theirs, and is not to be looked at
            present = parameter.grad
            return present is None or id(present) != identity or present._version != version

    def look_for_parameters(self, roots):
        """Tensors that gradients are accumulated into may belong to no module: they are found at the graph's ends."""
        self.passes += 1
        if self.passes > _PASSES_LOOKED_AT:
            return
        open_ = [root.grad_fn for root in roots if getattr(root, "grad_fn", None) is not None]
        seen = set(open_)
        while open_ and len(seen) < _MOST_NODES:
            node = open_.pop()
            variable = getattr(node, "variable", None)
            if variable is not None:
                self.owners.add_leaf(variable)
            for following, _ in node.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    open_.append(following)

    def backward_has_ended(self, line, now):
        if self.line is None:
            self.line = line
        if line != self.line:
            return
        self.ended_at = now
        with self.owners.lock:
            if self.owners.others_train():
                return
            parameter = self.gradient[0] if self.gradient else self._any_with_gradient()
            self.gradient = None
            if parameter is not None and parameter.grad is not None:
                self.gradient = (parameter, id(parameter.grad), parameter.grad._version)

    def _any_with_gradient(self):
        return next((leaf for leaf in self.owners.live_leaves() if leaf.grad is not None), None)
