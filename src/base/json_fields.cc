// Looks a key up from the field after the last one on, as writers keep an order.
#include "base/json_fields.h"

#include <fmt/format.h>

#include <cassert>
#include <string>

namespace ebbtide {

JsonFields::JsonFields(JsonReader& in, std::span<const Field> fields, std::string_view expected)
    : in_(in), fields_(fields) {
  assert(fields.size() <= 32);
  in_.BeginObject(expected);
}

int JsonFields::Next() {
  if (!in_.NextKey()) {
    if (!in_.ok()) return -1;
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (fields_[i].required && (seen_ >> i & 1) == 0) {
        in_.FailWith(fmt::format("expected a key \"{}\" in this object", fields_[i].name));
        break;
      }
    }
    return -1;
  }
  const std::string_view key = in_.key();
  for (std::size_t tried = 0; tried < fields_.size(); ++tried) {
    const std::size_t i = (guess_ + tried) % fields_.size();
    if (fields_[i].name != key) continue;
    if (seen_ >> i & 1) {
      in_.FailWith("this key appears twice in its object");
      return -1;
    }
    seen_ |= std::uint32_t{1} << i;
    guess_ = i + 1;
    return static_cast<int>(i);
  }
  std::string known;
  for (const Field& field : fields_) known += (known.empty() ? "" : ", ") + std::string(field.name);
  in_.FailWith("unknown key; known here are " + known);
  return -1;
}

}  // namespace ebbtide
