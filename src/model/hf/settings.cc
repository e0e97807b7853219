// Flattens the file while it is read.
#include "model/hf/settings.h"

#include <fmt/format.h>

#include <cmath>

#include "base/json_reader.h"
#include "base/json_text.h"

namespace ebbtide::model::hf {

Result<Settings> Settings::Parse(std::string_view text) {
  struct Frame {
    bool is_object;
    std::string prefix;
  };
  JsonReader in(text);
  Settings settings;
  std::vector<Frame> open = {{true, ""}};
  in.BeginObject("an object with the settings of a model");
  while (!open.empty()) {
    const bool is_object = open.back().is_object;
    if (is_object ? !in.NextKey() : !in.NextItem()) {
      open.pop_back();
      continue;
    }
    const std::string& prefix = open.back().prefix;
    std::string path = !is_object       ? fmt::format("{}[{}]", prefix, in.item())
                       : prefix.empty() ? std::string(in.key())
                                        : fmt::format("{}.{}", prefix, in.key());
    switch (in.Peek()) {
      case JsonReader::Type::kNull:
        in.Null();
        settings.values_[path] = {};
        break;
      case JsonReader::Type::kBool: settings.values_[path] = in.Bool(); break;
      case JsonReader::Type::kNumber: {
        const JsonReader::Number number = in.AnyNumber();
        settings.values_[path] = number.is_integer ? Value{number.integer} : Value{number.real};
        break;
      }
      case JsonReader::Type::kList:
        in.BeginList();
        open.push_back({false, std::move(path)});
        break;
      case JsonReader::Type::kObject:
        in.BeginObject();
        open.push_back({true, std::move(path)});
        break;
      case JsonReader::Type::kString:
      case JsonReader::Type::kNone: settings.values_[path] = std::string(in.String("a value")); break;
    }
  }
  in.End();
  if (!in.ok()) return tl::unexpected<Error>(in.error());
  return settings;
}

bool Settings::Has(std::string_view path) const {
  const auto found = values_.find(path);
  return found != values_.end() && !std::holds_alternative<std::monostate>(found->second);
}

bool Settings::HasObject(std::string_view path) const {
  const std::string prefix = std::string(path) + ".";
  const auto found = values_.lower_bound(prefix);
  return found != values_.end() && found->first.starts_with(prefix);
}

const std::pair<const std::string, Settings::Value>* Settings::Find(std::initializer_list<const char*> names) const {
  for (const char* name : names) {
    const auto found = values_.find(std::string_view(name));
    if (found != values_.end() && !std::holds_alternative<std::monostate>(found->second)) return &*found;
  }
  return nullptr;
}

void Settings::Complain(std::string message) {
  if (!error_) error_ = Error{std::move(message)};
}

void Settings::Expected(const std::pair<const std::string, Value>& found, std::string_view what) {
  const auto shown = [&]() -> std::string {
    if (const bool* truth = std::get_if<bool>(&found.second)) return *truth ? "true" : "false";
    if (const auto* number = std::get_if<std::int64_t>(&found.second)) return std::to_string(*number);
    if (const double* number = std::get_if<double>(&found.second)) return fmt::format("{}", *number);
    if (const auto* text = std::get_if<std::string>(&found.second)) return Quoted(*text);
    return "null";
  };
  Complain(fmt::format("{}: expected {}, found {}", IsUtf8(found.first) ? found.first : "a setting", what, shown()));
}

void Settings::Integer(std::initializer_list<const char*> names, std::int64_t& value, std::int64_t least,
                       std::int64_t most) {
  const auto* found = Find(names);
  if (found == nullptr) return;
  const auto* number = std::get_if<std::int64_t>(&found->second);
  if (number == nullptr || *number < least || *number > most) {
    return Expected(*found, fmt::format("a whole number from {} to {}", least, most));
  }
  value = *number;
}

void Settings::Bool(std::initializer_list<const char*> names, bool& value) {
  const auto* found = Find(names);
  if (found == nullptr) return;
  const bool* truth = std::get_if<bool>(&found->second);
  if (truth == nullptr) return Expected(*found, "true or false");
  value = *truth;
}

void Settings::Number(std::initializer_list<const char*> names, double& value) {
  const auto* found = Find(names);
  if (found == nullptr) return;
  if (const auto* whole = std::get_if<std::int64_t>(&found->second)) {
    value = static_cast<double>(*whole);
  } else if (const double* real = std::get_if<double>(&found->second); real && std::isfinite(*real)) {
    value = *real;
  } else {
    Expected(*found, "a number");
  }
}

void Settings::Share(std::initializer_list<const char*> names, double& value) {
  double number = value;
  Number(names, number);
  const auto* found = Find(names);
  if (found != nullptr && !(number >= 0 && number <= 1)) return Expected(*found, "a number from 0 to 1");
  value = number;
}

void Settings::Text(std::initializer_list<const char*> names, std::string& value) {
  const auto* found = Find(names);
  if (found == nullptr) return;
  const auto* text = std::get_if<std::string>(&found->second);
  if (text == nullptr) return Expected(*found, "a name");
  value = *text;
}

std::vector<std::string> Settings::Texts(const std::string& path) {
  std::vector<std::string> texts;
  for (std::size_t i = 0;; ++i) {
    const auto found = values_.find(fmt::format("{}[{}]", path, i));
    if (found == values_.end()) return texts;
    const auto* text = std::get_if<std::string>(&found->second);
    if (text == nullptr) return Expected(*found, "a name"), texts;
    texts.push_back(*text);
  }
}

std::vector<std::int64_t> Settings::Integers(const std::string& path) {
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0;; ++i) {
    const auto found = values_.find(fmt::format("{}[{}]", path, i));
    if (found == values_.end()) return numbers;
    const auto* number = std::get_if<std::int64_t>(&found->second);
    if (number == nullptr) return Expected(*found, "a whole number"), numbers;
    numbers.push_back(*number);
  }
}

std::int64_t Settings::CountIn(const std::string& path) const {
  const std::string prefix = path + ".";
  std::int64_t count = 0;
  for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first.starts_with(prefix); ++at) ++count;
  return count;
}

Settings Settings::Inside(const std::string& path) const {
  Settings inside = *this;
  const std::string prefix = path + ".";
  for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first.starts_with(prefix); ++at) {
    inside.values_[at->first.substr(prefix.size())] = at->second;
  }
  return inside;
}

}  // namespace ebbtide::model::hf
