// Runs the pickle's opcodes with a stack and a memo, and knows none that makes an object.
#include "trace/pickle.h"

#include <bit>
#include <cstring>

namespace ebbtide::trace {
namespace {

// Opcodes of protocols 2 to 5 that plain values need, by their names in Python's pickletools.
enum Opcode : std::uint8_t {
  kProto = 0x80,
  kFrame = 0x95,
  kStop = '.',
  kMark = '(',
  kNone = 'N',
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kLong1 = 0x8a,
  kBinFloat = 'G',
  kShortBinUnicode = 0x8c,
  kBinUnicode = 'X',
  kBinUnicode8 = 0x8d,
  kShortBinBytes = 'C',
  kBinBytes = 'B',
  kBinBytes8 = 0x8e,
  kEmptyList = ']',
  kEmptyDict = '}',
  kEmptyTuple = ')',
  kTuple = 't',
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kAppend = 'a',
  kAppends = 'e',
  kSetItem = 's',
  kSetItems = 'u',
  kMemoize = 0x94,
  kBinPut = 'q',
  kLongBinPut = 'r',
  kBinGet = 'h',
  kLongBinGet = 'j',
};

constexpr int kNewestProtocol = 5;
// Values in nodes_ from the start.
constexpr Pickle::Value kNoneValue = 0, kTrueValue = 1, kFalseValue = 2;

}  // namespace

// The machine that a pickle is a program for, reduced to what makes plain values.
class Pickle::Reader {
 public:
  Reader(std::string_view content, const std::string& path) : path_(path) {
    pickle_.content_ = content;
    pickle_.nodes_ = {{Type::kNone, 0, 0}, {Type::kBool, 0, 1}, {Type::kBool, 0, 0}};
  }

  Result<Pickle> Read() {
    while (error_.empty() && pickle_.root_ == kMissing) {
      opcode_at_ = position_;
      Step(Byte());
    }
    if (!error_.empty()) return Fail("{}: byte {}: {}", path_, opcode_at_, error_);
    return std::move(pickle_);
  }

 private:
  void Complain(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }

  std::uint64_t Number(std::size_t bytes) {
    if (pickle_.content_.size() - position_ < bytes) {
      Complain("expected more of the pickle, found the end of the file");
      return 0;
    }
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      number |= static_cast<std::uint64_t>(static_cast<unsigned char>(pickle_.content_[position_ + i])) << (8 * i);
    }
    position_ += bytes;
    return number;
  }
  std::uint8_t Byte() { return static_cast<std::uint8_t>(Number(1)); }

  void Push(Value value) { stack_.push_back(value); }
  void PushNode(Type type, std::uint32_t count, std::int64_t number) {
    pickle_.nodes_.push_back({type, count, number});
    Push(static_cast<Value>(pickle_.nodes_.size() - 1));
  }
  void PushContainer(Type type) {
    Node node{type, 0, 0};
    node.SetItems(kMissing, kMissing);
    pickle_.nodes_.push_back(node);
    Push(static_cast<Value>(pickle_.nodes_.size() - 1));
  }
  void PushText(Type type, std::size_t length_bytes) {
    const std::uint64_t length = Number(length_bytes);
    if (!error_.empty()) return;
    if (length > pickle_.content_.size() - position_) {
      return Complain(fmt::format("expected a text of {} bytes, found the end of the file", length));
    }
    PushNode(type, static_cast<std::uint32_t>(length), static_cast<std::int64_t>(position_));
    position_ += length;
  }
  void PushLong() {
    const std::size_t bytes = Byte();
    if (bytes > 8) return Complain("expected an integer of at most 64 bits");
    std::uint64_t number = Number(bytes);
    if (bytes > 0 && bytes < 8 && (number >> (8 * bytes - 1)) != 0) number |= ~std::uint64_t{0} << (8 * bytes);
    PushNode(Type::kInteger, 0, static_cast<std::int64_t>(number));
  }

  // What lies above the last mark begins here; the mark is gone.
  std::size_t PopMark() {
    if (marks_.empty()) {
      Complain("expected a mark on the stack");
      return stack_.size();
    }
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  void Add(Value container, std::size_t from) {
    for (std::size_t i = from; i < stack_.size(); ++i) {
      pickle_.items_.push_back({stack_[i], kMissing});
      const Item item = static_cast<Item>(pickle_.items_.size() - 1);
      Node& node = pickle_.nodes_[container];
      if (node.first() == kMissing) {
        node.SetItems(item, item);
      } else {
        pickle_.items_[node.last()].next = item;
        node.SetItems(node.first(), item);
      }
      ++node.count;
    }
    stack_.resize(from);
  }

  // The values from `from` on go into the container below them.
  void AddTo(Type type, std::size_t from) {
    if (!error_.empty()) return;
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (from <= floor || from > stack_.size() || pickle_.type(stack_[from - 1]) != type) {
      return Complain(fmt::format("expected a {} on the stack to add to", Name(type)));
    }
    if (type == Type::kDict && (stack_.size() - from) % 2 != 0) return Complain("expected a value for every key");
    Add(stack_[from - 1], from);
  }

  void PushTuple(std::size_t from) {
    if (!error_.empty()) return;
    Node node{Type::kTuple, 0, 0};
    node.SetItems(kMissing, kMissing);
    pickle_.nodes_.push_back(node);
    const Value tuple = static_cast<Value>(pickle_.nodes_.size() - 1);
    Add(tuple, from);
    Push(tuple);
  }

  // So many values above the last mark; where the first of them lies.
  std::size_t Above(std::size_t count) {
    const std::size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() - floor < count) {
      Complain("expected more values on the stack");
      return stack_.size();
    }
    return stack_.size() - count;
  }

  void Put(std::uint64_t index) {
    const std::size_t top = Above(1);
    if (!error_.empty()) return;
    // Python's own writer numbers them from 0 on without gaps.
    if (index > memo_.size())
      return Complain(fmt::format("expected memo number {} or below, found {}", memo_.size(), index));
    if (index == memo_.size()) {
      memo_.push_back(stack_[top]);
    } else {
      memo_[index] = stack_[top];
    }
  }
  void Get(std::uint64_t index) {
    if (index >= memo_.size())
      return Complain(fmt::format("expected a memo number below {}, found {}", memo_.size(), index));
    Push(memo_[index]);
  }

  void Stop() {
    const std::size_t top = Above(1);
    if (!error_.empty()) return;
    if (!marks_.empty() || stack_.size() != 1) return Complain("expected one value at the end");
    pickle_.root_ = stack_[top];
  }

  void Step(std::uint8_t opcode) {
    if (!error_.empty()) return;
    switch (opcode) {
      case kProto:
        if (const int protocol = Byte(); protocol > kNewestProtocol) {
          Complain(fmt::format("expected protocol {} or below, found {}", kNewestProtocol, protocol));
        }
        return;
      case kFrame: Number(8); return;
      case kStop: return Stop();
      case kMark: marks_.push_back(stack_.size()); return;
      case kNone: return Push(kNoneValue);
      case kNewTrue: return Push(kTrueValue);
      case kNewFalse: return Push(kFalseValue);
      case kBinInt: return PushNode(Type::kInteger, 0, static_cast<std::int32_t>(Number(4)));
      case kBinInt1: return PushNode(Type::kInteger, 0, static_cast<std::int64_t>(Number(1)));
      case kBinInt2: return PushNode(Type::kInteger, 0, static_cast<std::int64_t>(Number(2)));
      case kLong1: return PushLong();
      case kBinFloat: return PushNode(Type::kFloat, 0, static_cast<std::int64_t>(Number(8)));
      case kShortBinUnicode: return PushText(Type::kText, 1);
      case kBinUnicode: return PushText(Type::kText, 4);
      case kBinUnicode8: return PushText(Type::kText, 8);
      case kShortBinBytes: return PushText(Type::kBytes, 1);
      case kBinBytes: return PushText(Type::kBytes, 4);
      case kBinBytes8: return PushText(Type::kBytes, 8);
      case kEmptyList: return PushContainer(Type::kList);
      case kEmptyDict: return PushContainer(Type::kDict);
      case kEmptyTuple: return PushContainer(Type::kTuple);
      case kTuple: return PushTuple(PopMark());
      case kTuple1: return PushTuple(Above(1));
      case kTuple2: return PushTuple(Above(2));
      case kTuple3: return PushTuple(Above(3));
      case kAppend: return AddTo(Type::kList, Above(1));
      case kAppends: return AddTo(Type::kList, PopMark());
      case kSetItem: return AddTo(Type::kDict, Above(2));
      case kSetItems: return AddTo(Type::kDict, PopMark());
      case kMemoize: return Put(memo_.size());
      case kBinPut: return Put(Number(1));
      case kLongBinPut: return Put(Number(4));
      case kBinGet: return Get(Number(1));
      case kLongBinGet: return Get(Number(4));
      default:
        Complain(fmt::format("expected a pickle of plain values, found opcode 0x{:02x}, which is not executed here",
                             opcode));
    }
  }

  Pickle pickle_;
  const std::string& path_;
  std::size_t position_ = 0, opcode_at_ = 0;
  std::vector<Value> stack_, memo_;
  std::vector<std::size_t> marks_;
  std::string error_;
};

Result<Pickle> Pickle::Parse(std::string_view content, const std::string& path) {
  if (content.size() >= kMissing / 2) return Fail("{}: expected less than 2 GiB", path);
  return Reader(content, path).Read();
}

std::string_view Pickle::text(Value value) const {
  const Node& node = nodes_[value];
  return content_.substr(static_cast<std::size_t>(node.number), node.count);
}

Pickle::Value Pickle::Find(Value dict, std::string_view key) const {
  if (!Is(dict, Type::kDict)) return kMissing;
  Value found = kMissing;
  for (Item item = First(dict); item != kMissing; item = Next(Next(item))) {
    if (Is(At(item), Type::kText) && text(At(item)) == key) found = At(Next(item));
  }
  return found;
}

std::string_view Pickle::Name(Type type) {
  switch (type) {
    case Type::kNone: return "None";
    case Type::kBool: return "bool";
    case Type::kInteger: return "int";
    case Type::kFloat: return "float";
    case Type::kText: return "str";
    case Type::kBytes: return "bytes";
    case Type::kList: return "list";
    case Type::kTuple: return "tuple";
    case Type::kDict: return "dict";
  }
  return "";
}

}  // namespace ebbtide::trace
