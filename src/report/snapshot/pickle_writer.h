// A Python pickle of plain values, of protocol 2, which every reader of pickles knows (torch's page in the browser
// too). Values follow each other as they are nested; texts are written once and then referred to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace ebbtide::report {

class PickleWriter {
 public:
  PickleWriter() : out_("\x80\x02") {}

  void BeginList() { out_ += "]("; }
  void EndList() { out_ += 'e'; }
  // Between two items of the same list. Readers push what stands between two of these at once, and JavaScript cannot
  // push a hundred thousand values: after every kBatch items, as Python does it.
  void ContinueList() { out_ += "e("; }
  static constexpr std::size_t kBatch = 1000;
  // Between the two, keys and values by turns.
  void BeginDict() { out_ += "}("; }
  void EndDict() { out_ += 'u'; }

  void Integer(std::int64_t value);
  void Bool(bool value) { out_ += value ? '\x88' : '\x89'; }
  void Text(std::string_view value);  // UTF-8
  // A tuple of the two values that were written last.
  void EndPair() { out_ += '\x86'; }

  // The value that was written last can be written again, by this number.
  std::int64_t Remember();
  void Recall(std::int64_t number);

  void Entry(std::string_view key, std::int64_t value) {
    Text(key);
    Integer(value);
  }
  void Entry(std::string_view key, std::string_view value) {
    Text(key);
    Text(value);
  }

  std::string Finish() && {
    out_ += '.';
    return std::move(out_);
  }

 private:
  void Number32(std::uint32_t value);

  std::string out_;
  std::unordered_map<std::string, std::int64_t> texts_;
  std::int64_t remembered_ = 0;
};

}  // namespace ebbtide::report
