// Reads a Python pickle of plain values: None, booleans, integers, floats, texts, bytes, lists, tuples, dicts. Nothing
// in the file is executed: opcodes that name or make Python objects are refused. No recursion; memory stays within a
// small multiple of the file's size, since a value that is referred to twice is held once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ebbtide::trace {

class Pickle {
 public:
  enum class Type : std::uint8_t { kNone, kBool, kInteger, kFloat, kText, kBytes, kList, kTuple, kDict };
  // A value of the pickle; values may refer to each other in circles.
  using Value = std::uint32_t;
  static constexpr Value kMissing = 0xFFFFFFFF;

  // `content` must outlive what is returned. Errors name `path` and the byte.
  static Result<Pickle> Parse(std::string_view content, const std::string& path);

  Value root() const { return root_; }
  Type type(Value value) const { return nodes_[value].type; }
  bool Is(Value value, Type type) const { return value != kMissing && nodes_[value].type == type; }
  std::int64_t integer(Value value) const { return nodes_[value].number; }  // of kInteger and kBool
  std::string_view text(Value value) const;                                 // of kText and kBytes
  std::size_t size(Value value) const { return nodes_[value].count; }       // of lists and tuples

  // What a dict holds under a key; kMissing: nothing.
  Value Find(Value dict, std::string_view key) const;

  // for (auto item = pickle.First(list); item != kMissing; item = pickle.Next(item)) pickle.At(item)
  using Item = std::uint32_t;
  Item First(Value container) const { return nodes_[container].first(); }
  Item Next(Item item) const { return items_[item].next; }
  Value At(Item item) const { return items_[item].value; }

  static std::string_view Name(Type type);

 private:
  class Reader;
  struct Node {
    Type type = Type::kNone;
    std::uint32_t count = 0;  // items, or bytes of a text
    std::int64_t number = 0;  // the number, where a text begins, or the first and the last item

    Item first() const { return static_cast<Item>(number & 0xFFFFFFFF); }
    Item last() const { return static_cast<Item>(static_cast<std::uint64_t>(number) >> 32); }
    void SetItems(Item first, Item last) {
      number = static_cast<std::int64_t>(static_cast<std::uint64_t>(last) << 32 | first);
    }
  };
  struct ItemNode {
    Value value = kMissing;
    Item next = kMissing;
  };

  std::string_view content_;
  std::vector<Node> nodes_;
  std::vector<ItemNode> items_;  // of all containers; of dicts keys and values in turn
  Value root_ = kMissing;
};

}  // namespace ebbtide::trace
