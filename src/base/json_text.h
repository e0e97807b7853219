// Pieces of JSON text: how strings and floats are written, and how values of a file are quoted in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ebbtide {

// Bytes of the UTF-8 character that `text` begins with (RFC 3629: no overlong forms, no surrogates); 0: it does not.
std::size_t Utf8CharacterLength(std::string_view text);
bool IsUtf8(std::string_view text);

// In quotes, with what JSON wants escaped and nothing else.
void AppendJsonString(std::string& out, std::string_view text);

// The shortest digits that read back as the same double, always with a point or an exponent. Finite values only.
void AppendJsonDouble(std::string& out, double value);

void AppendInteger(std::string& out, std::int64_t value);

// Text from a file, fit for one line of a message: in quotes, escaped, cut when long.
std::string Quoted(std::string_view text);

}  // namespace ebbtide
