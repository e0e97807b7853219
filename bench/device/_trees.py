"""The decision trees of src/device/workspace_trees.h: read, evaluated, and fitted anew to what cuDNN answers."""

import collections
import math
import re

FEATURES = ("Rows", "Columns", "Depth", "InChannels", "OutChannels", "FilterArea", "Stride", "Groups", "Pixels", "Batch", "Capability")
PASS_NAMES = {"forward": "Forward", "data": "DataGradient", "filter": "FilterGradient"}
MOST_COPIES = 3  # of one tensor
Leaf = collections.namedtuple("Leaf", "copies")
Node = collections.namedtuple("Node", "feature limit below above")


def tree_name(problem):
    return ("Float16" if problem.dtype == "float16" else "Float32") + ("ChannelsLast" if problem.channels_last else "Planar") + PASS_NAMES[problem.direction]


def features_of(problem, capability):
    ins, outs, area = problem.in_channels // problem.groups, problem.out_channels // problem.groups, math.prod(problem.filter)
    return {"Rows": problem.batch * math.prod(problem.output), "Columns": outs, "Depth": ins * area, "InChannels": ins, "OutChannels": outs,
            "FilterArea": area, "Stride": problem.stride[0], "Groups": problem.groups, "Pixels": math.prod(problem.input), "Batch": problem.batch,
            "Capability": capability}


def copied_bytes(problem, copies):
    """As CopiedBytes of src/device/workspace_rules.cc."""
    item = 2 if problem.dtype == "float16" else 4
    def padded(n):
        return -(-n // (16 // item)) * (16 // item) if problem.groups == 1 else n
    ins, outs = padded(problem.in_channels), padded(problem.out_channels)
    total = item * (copies[0] * ins * problem.batch * math.prod(problem.input) + copies[1] * outs * problem.batch * math.prod(problem.output) +
                    copies[2] * ins // problem.groups * problem.out_channels * math.prod(problem.filter))
    return total + 16 if total else 0


def read_trees(path):
    trees, rows = {}, None
    for line in path.read_text().splitlines():
        if begin := re.match(r"constexpr ChoiceNode k(\w+)\[\]", line):
            rows = trees.setdefault(begin[1], [])
        elif row := re.match(r"\s*\{k(\w+), (\d+), (\d+), \{([\d, ]*)\}\}", line):
            rows.append((row[1], int(row[2]), tuple(int(n) for n in row[4].split(",")) if row[4] else None))

    def built(rows):
        feature, limit, copies = rows.pop(0)
        return Leaf(copies) if feature == "Leaf" else Node(feature, limit, built(rows), built(rows))

    return {name: built(list(rows)) for name, rows in trees.items()}


def written(name, tree):
    """In the form of the header."""
    def size(node):
        return 1 if isinstance(node, Leaf) else 1 + size(node.below) + size(node.above)

    def lines(node, depth):
        indent = "    " + "  " * depth
        if isinstance(node, Leaf):
            return [f"{indent}{{kLeaf, 0, 0, {{{', '.join(map(str, node.copies))}}}}},"]
        return [f"{indent}{{k{node.feature}, {node.limit}, {size(node.below)}, {{}}}},", *lines(node.below, depth + 1), *lines(node.above, depth + 1)]

    return "\n".join([f"constexpr ChoiceNode k{name}[] = {{", *lines(tree, 0), "};"])


def evaluated(tree, features):
    while isinstance(tree, Node):
        tree = tree.below if features[tree.feature] <= tree.limit else tree.above
    return tree.copies


def is_right(predicted, answered):
    return abs(predicted - answered) <= 0.05 * answered + 128 * 1024


def nearest_copies(problem, workspace):
    """The counts of copies whose bytes come nearest to the answer; of equals the fewest."""
    counts = [(a, b, c) for a in range(2) for b in range(2) for c in range(MOST_COPIES + 1)]
    return min(counts, key=lambda n: (abs(copied_bytes(problem, n) - workspace), sum(n)))


def fitted(samples, most_leaves=32, fewest=10):
    """samples: [(features, copies)]. Splits the leaf that gains most in purity (Gini's) until none gains or there are enough leaves."""
    leaves = [samples]
    root = {"samples": samples}
    open_ones = [root]
    while len(leaves) < most_leaves:
        found = [(_best_split(node["samples"], fewest), node) for node in open_ones]
        found = [(split, node) for split, node in found if split and split[0] > 1e-9]
        if not found:
            break
        (_, feature, limit), node = max(found, key=lambda f: f[0][0])
        node["split"] = (feature, limit)
        node["below"] = {"samples": [s for s in node["samples"] if s[0][feature] <= limit]}
        node["above"] = {"samples": [s for s in node["samples"] if s[0][feature] > limit]}
        open_ones.remove(node)
        open_ones += [node["below"], node["above"]]
        leaves = open_ones
    return _frozen(root)


def _frozen(node):
    if "split" not in node:
        return Leaf(collections.Counter(copies for _, copies in node["samples"]).most_common(1)[0][0])
    return Node(*node["split"], _frozen(node["below"]), _frozen(node["above"]))


def _impurity(counts, total):
    return total - sum(n * n for n in counts.values()) / total if total else 0


def _best_split(samples, fewest):
    """(gain, feature, limit); None: too few to split."""
    if len(samples) < 2 * fewest:
        return None
    everything = collections.Counter(copies for _, copies in samples)
    whole, best = _impurity(everything, len(samples)), None
    for feature in FEATURES:
        ordered = sorted(samples, key=lambda s: s[0][feature])
        below, above = collections.Counter(), collections.Counter(everything)
        for i, (features, copies) in enumerate(ordered[:-1], 1):
            below[copies] += 1
            above[copies] -= 1
            following = ordered[i][0][feature]
            if features[feature] == following or i < fewest or len(ordered) - i < fewest:
                continue
            gain = whole - _impurity(below, i) - _impurity(above, len(ordered) - i)
            if best is None or gain > best[0]:
                best = gain, feature, (features[feature] + following) // 2
    return best
