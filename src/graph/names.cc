// Names of kinds of storage, of phases and of frameworks.
#include "graph/names.h"

#include <array>

namespace ebbtide {
namespace {

constexpr std::array<std::string_view, kStorageKinds> kKindNames = {
    "parameter", "buffer", "gradient", "optimizer_state", "input", "activation", "temporary"};
constexpr std::array<std::string_view, kPhases> kPhaseNames = {"forward", "backward", "update"};
constexpr std::array<std::string_view, kFrameworks> kFrameworkNames = {"none", "pytorch", "mxnet", "tensorflow"};

template <class Enum, std::size_t N>
std::optional<Enum> Find(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view Name(StorageKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }
std::string_view Name(Phase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }
std::string_view Name(Framework framework) { return kFrameworkNames[static_cast<std::size_t>(framework)]; }

std::optional<StorageKind> StorageKindFromName(std::string_view name) { return Find<StorageKind>(kKindNames, name); }
std::optional<Phase> PhaseFromName(std::string_view name) { return Find<Phase>(kPhaseNames, name); }
std::optional<Framework> FrameworkFromName(std::string_view name) { return Find<Framework>(kFrameworkNames, name); }

}  // namespace ebbtide
