// Reads JSON text value by value, in the order the caller expects it, straight into the caller's structs. There is no
// tree of the document and no recursion: depth is what the caller's functions go into.
//
// The first error sticks: from then on every call does nothing, NextKey and NextItem say that there is no more, and
// loops end by themselves. The caller asks once, after End. Values that were read before that mean nothing.
//
//   JsonReader in(text);
//   in.BeginList();
//   while (in.NextItem()) sizes.push_back(in.Integer("a size"));
//   in.End();
//   if (!in.ok()) return in.error();   // "[3]: expected a size, found "x" (line 1, column 9)"
//
// The errors name the place as in JavaScript: ops[17].inputs[2].
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ebbtide {

class JsonReader {
 public:
  enum class Type : std::uint8_t { kNull, kBool, kNumber, kString, kList, kObject, kNone };
  struct Number {
    bool is_integer = false;   // written without point and exponent
    std::int64_t integer = 0;  // only where is_integer
    double real = 0;           // in both cases
  };

  // The text must outlive the reader. A byte order mark is skipped.
  explicit JsonReader(std::string_view text);

  bool ok() const { return !error_; }
  Error error() const { return *error_; }

  // Type of the next value by its first character; kNone where no value can begin so, and after an error.
  Type Peek();

  void BeginObject(std::string_view expected = "an object");
  bool NextKey();                                     // false: the object has ended
  std::string_view key() const { return Top().key; }  // until the next call of NextKey
  void BeginList(std::string_view expected = "a list");
  bool NextItem();  // false: the list has ended
  std::int64_t item() const { return Top().item; }

  void Null();
  bool Bool(std::string_view expected = "true or false");
  std::string_view String(std::string_view expected = "a string");  // until the next call of anything
  Number AnyNumber(std::string_view expected = "a number");
  // An integer of `least` to `most`, written without point and exponent.
  std::int64_t Integer(std::string_view expected = "an integer",
                       std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                       std::int64_t most = std::numeric_limits<std::int64_t>::max());
  // A number written with point or exponent.
  double Float(std::string_view expected = "a float");

  // Only blanks may follow the outermost value.
  void End();

  // The value that was read last is not what it should be.
  void FailLast(std::string_view expected);
  // Any other complaint, at the present place.
  void FailWith(std::string_view message);

 private:
  static constexpr std::size_t kDeepest = 16;
  struct Frame {
    bool is_object = false;
    bool any = false;        // an item or key was seen
    std::int64_t item = -1;  // of a list
    std::string_view key;    // of an object
    std::string unescaped;   // what `key` refers to, where the text has escapes
  };

  const Frame& Top() const { return frames_[depth_ - 1]; }
  Frame& Top() { return frames_[depth_ - 1]; }
  void SkipBlanks();
  bool Take(char c);
  bool Begin(char bracket, std::string_view expected);
  bool NextInFrame(char close);
  std::string_view ScanString(std::string& unescaped);
  bool Unescape(std::string& unescaped);
  std::optional<std::uint32_t> FourHexDigits();
  void FailExpected(std::string_view expected);
  void FailAt(std::size_t position, std::string message);
  std::string Found(std::size_t position) const;
  std::string Place() const;

  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t value_ = 0;  // where the value that was read last begins
  std::size_t depth_ = 0;
  std::array<Frame, kDeepest> frames_;
  std::string scratch_;
  std::optional<Error> error_;
};

}  // namespace ebbtide
