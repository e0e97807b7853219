// Names of kinds of storage, of phases and of frameworks, as graph files and people use them.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "graph/graph.h"

namespace ebbtide {

inline constexpr std::size_t kStorageKinds = 7;
inline constexpr std::size_t kPhases = 3;
inline constexpr std::size_t kFrameworks = 4;

std::string_view Name(StorageKind kind);     // "optimizer_state"
std::string_view Name(Phase phase);          // "backward"
std::string_view Name(Framework framework);  // "pytorch", "none"
std::optional<StorageKind> StorageKindFromName(std::string_view name);
std::optional<Phase> PhaseFromName(std::string_view name);
std::optional<Framework> FrameworkFromName(std::string_view name);

}  // namespace ebbtide
