// From the bytes of a model file in protobuf's format to its structure: the same message without the weights, whatever
// the file claims. The front ends (onnx/, tensorflow/) list as tables what they read.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>

#include <span>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide::model::protobuf {

// What a file may ask of us. protobuf itself ends at 2 GiB.
inline constexpr Bytes kMostFileBytes = 2 * kGiB - 1;
inline constexpr Bytes kMostStructureBytes = 64 * kMiB;
inline constexpr std::int64_t kMostFields = 4'000'000;
// Data of a tensor up to this length is kept: shapes, axes, scalars. Longer data is skipped in the stream, unread.
inline constexpr Bytes kMostTensorDataBytes = 4 * kKiB;

enum class Content {
  kNumber,
  kFloat,
  kDouble,
  kBytes,
  kMessage,
  kTensorNumbers,
  kTensorFloats,
  kTensorDoubles,
  kTensorBytes
};

struct Message;

struct Field {
  std::uint32_t number;  // at most kMostFieldNumber
  const char* name;
  Content content;
  const Message* message = nullptr;
};
inline constexpr std::uint32_t kMostFieldNumber = 20;

struct Message {
  std::span<const Field> fields;
};

// A schema as a table. It has no cycles, so copying does not recurse on the input's depth.
struct Format {
  const char* article;
  const char* name;       // "an", "ONNX"
  const Message* root;    // what the file is
  const Message* tensor;  // the message whose data is bounded
};

// Copies the fields that the table lists and skips the rest. Nesting is as deep as the table, and every length lies
// within its parent. Errors name the byte and the place in the message. `size` is at most kMostFileBytes.
Result<std::string> ReadStructure(google::protobuf::io::ZeroCopyInputStream& file, Bytes size, const Format& format);

}  // namespace ebbtide::model::protobuf
