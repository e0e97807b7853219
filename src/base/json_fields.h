// Objects with a fixed set of keys, on top of JsonReader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/json_reader.h"

namespace ebbtide {

// The keys that an object may have, and a loop over those that it has:
//
//   JsonFields fields(in, kFields);
//   for (int field; (field = fields.Next()) >= 0;) switch (field) { case 0: ... }
//
// Unknown and repeated keys are errors, and at the end of the object missing ones that are required.
class JsonFields {
 public:
  struct Field {
    std::string_view name;
    bool required = false;
  };

  // At most 32 fields. Begins the object.
  JsonFields(JsonReader& in, std::span<const Field> fields, std::string_view expected = "an object");
  int Next();  // which field comes next; -1: none

 private:
  JsonReader& in_;
  std::span<const Field> fields_;
  std::uint32_t seen_ = 0;
  std::size_t guess_ = 0;  // writers keep an order: the field after the last one comes next
};

}  // namespace ebbtide
