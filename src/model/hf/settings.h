// A config.json as settings by their paths ("hidden_size", "rope_parameters.rope_theta", "layer_types[3]"), with
// questions that complain in one line. Memory is bounded by the size of the file; nothing recurses on its depth.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace ebbtide::model::hf {

class Settings {
 public:
  static Result<Settings> Parse(std::string_view text);

  // Whether one of these is there and not null.
  bool Has(std::string_view path) const;
  bool HasObject(std::string_view path) const;

  // Each takes the first of `names` that is there and not null; without any, the value stays as it is. What is there
  // and is something else is noted, and error() has the first such complaint.
  void Integer(std::initializer_list<const char*> names, std::int64_t& value, std::int64_t least, std::int64_t most);
  void Bool(std::initializer_list<const char*> names, bool& value);
  void Share(std::initializer_list<const char*> names, double& value);  // a number from 0 to 1
  void Number(std::initializer_list<const char*> names, double& value);
  void Text(std::initializer_list<const char*> names, std::string& value);
  std::vector<std::string> Texts(const std::string& path);
  std::vector<std::int64_t> Integers(const std::string& path);

  // How many settings stand directly or further below `path`.
  std::int64_t CountIn(const std::string& path) const;

  // All settings below `path` as if they stood at the top; those at the top that it lacks stay.
  Settings Inside(const std::string& path) const;

  void Complain(std::string message);
  const std::optional<Error>& error() const { return error_; }

 private:
  using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string>;
  const std::pair<const std::string, Value>* Find(std::initializer_list<const char*> names) const;
  void Expected(const std::pair<const std::string, Value>& found, std::string_view what);

  std::map<std::string, Value, std::less<>> values_;
  std::optional<Error> error_;
};

}  // namespace ebbtide::model::hf
