// Strong identifiers. An id is an index into one vector of its owner; ids of different nouns do not mix.
// A default-constructed id refers to nothing. Where an id ends a half-open range, it may be one past the last.
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
  // The id behind this one.
  constexpr Id Next() const { return Id(index() + 1); }
  constexpr Id& operator++() {
    ++value;
    return *this;
  }
  // An id that refers to nothing comes before all others; NoneLast orders it behind them.
  constexpr auto operator<=>(const Id&) const = default;
};

// What to compare ids by where one that refers to nothing stands for "never".
template <class Tag>
constexpr std::uint32_t NoneLast(Id<Tag> id) {
  return static_cast<std::uint32_t>(id.value);
}

using StorageId = Id<struct StorageTag>;
using TensorId = Id<struct TensorTag>;
using OpId = Id<struct OpTag>;
using ScalarId = Id<struct ScalarTag>;

}  // namespace ebbtide

template <class Tag>
struct std::hash<ebbtide::Id<Tag>> {
  std::size_t operator()(ebbtide::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.value); }
};
