// References that a framework's own frames keep, beside those of the graph.
#pragma once

#include <vector>

#include "graph/liveness.h"

namespace ebbtide::estimate {

// What is handed to a module is referenced by its caller until the call returns, whatever the module does with it. A
// run of forward ops below one name of a layer counts as a call of it. Embeddings of tokens and positions are variables
// of the forward that looks them up (inputs_embeds, in all of transformers) and live until that returns. Prolongs
// `lifetimes` (of ComputeLiveness) by both.
void HoldArguments(const TrainingGraph& graph, std::vector<Lifetime>& lifetimes);

}  // namespace ebbtide::estimate
