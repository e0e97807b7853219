// Results as JSON: one object per run, keys in the order in which they were set, raw bytes and nanoseconds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ebbtide::report {

using Json = nlohmann::ordered_json;

// Raised when a field changes its meaning or goes away; new fields do not raise it.
inline constexpr int kSchemaVersion = 1;

// An object that opens with `schema_version` and `command`.
Json NewResult(std::string_view command);

// Indented, ending in '\n'. Bytes that are not UTF-8 (names come from files) become U+FFFD.
std::string Print(const Json& result);

}  // namespace ebbtide::report
