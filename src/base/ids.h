// Strong identifiers. An id is an index into one vector of its owner; ids of different nouns do not mix.
// A default-constructed id refers to nothing.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace ebbtide {

template <class Tag>
struct Id {
  std::int32_t value = -1;

  constexpr Id() = default;
  constexpr explicit Id(std::size_t index) : value(static_cast<std::int32_t>(index)) {}

  constexpr bool valid() const { return value >= 0; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  constexpr auto operator<=>(const Id&) const = default;
};

using StorageId = Id<struct StorageTag>;
using TensorId = Id<struct TensorTag>;
using OpId = Id<struct OpTag>;
using ScalarId = Id<struct ScalarTag>;

}  // namespace ebbtide

template <class Tag>
struct std::hash<ebbtide::Id<Tag>> {
  std::size_t operator()(ebbtide::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.value); }
};
