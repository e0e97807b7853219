// Ids in a row, and a vector that is indexed by ids of one noun and by nothing else.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace ebbtide {

// The ids [begin, end), half-open, in order:  for (const OpId op : Ids<OpId>(graph.ops.size())) ...
template <class IdType>
class Ids {
 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = IdType;
    using difference_type = std::ptrdiff_t;
    using pointer = const IdType*;
    using reference = IdType;

    constexpr Iterator() = default;
    constexpr explicit Iterator(IdType id) : id_(id) {}
    constexpr IdType operator*() const { return id_; }
    constexpr Iterator& operator++() {
      ++id_;
      return *this;
    }
    constexpr Iterator operator++(int) { return Iterator(std::exchange(id_, id_.Next())); }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    IdType id_;
  };

  // The first `count` ids.
  constexpr explicit Ids(std::size_t count) : Ids(IdType(0), IdType(count)) {}
  // Both are valid. Empty where `begin` is not before `end`.
  constexpr Ids(IdType begin, IdType end) : begin_(begin), end_(std::max(begin, end)) {}
  constexpr Iterator begin() const { return Iterator(begin_); }
  constexpr Iterator end() const { return Iterator(end_); }

 private:
  IdType begin_, end_;
};

// A std::vector whose places are ids. What is not about ids it does as std::vector does, under the same names.
template <class IdType, class T>
class IdVector {
 public:
  using value_type = T;
  using iterator = typename std::vector<T>::iterator;
  using const_iterator = typename std::vector<T>::const_iterator;

  IdVector() = default;
  explicit IdVector(std::size_t size) : values_(size) {}
  IdVector(std::size_t size, const T& value) : values_(size, value) {}
  IdVector(std::initializer_list<T> values) : values_(values) {}
  // The value of id i is values[i].
  explicit IdVector(std::vector<T> values) : values_(std::move(values)) {}

  decltype(auto) operator[](IdType id) { return values_[id.index()]; }
  decltype(auto) operator[](IdType id) const { return values_[id.index()]; }

  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  // All ids that have a value here.
  Ids<IdType> ids() const { return Ids<IdType>(values_.size()); }
  // The id behind all of them, which the next value gets.
  IdType end_id() const { return IdType(values_.size()); }
  // The same values without their ids, for what takes plain vectors.
  const std::vector<T>& values() const { return values_; }

  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  decltype(auto) front() { return values_.front(); }
  decltype(auto) front() const { return values_.front(); }
  decltype(auto) back() { return values_.back(); }
  decltype(auto) back() const { return values_.back(); }

  void reserve(std::size_t size) { values_.reserve(size); }
  void resize(std::size_t size) { values_.resize(size); }
  void resize(std::size_t size, const T& value) { values_.resize(size, value); }
  void assign(std::size_t size, const T& value) { values_.assign(size, value); }
  void push_back(T value) { values_.push_back(std::move(value)); }
  auto insert(const_iterator before, T value) { return values_.insert(before, std::move(value)); }
  auto erase(const_iterator first) { return values_.erase(first); }
  void pop_back() { values_.pop_back(); }
  void clear() { values_.clear(); }

  bool operator==(const IdVector&) const = default;

 private:
  std::vector<T> values_;
};

}  // namespace ebbtide
