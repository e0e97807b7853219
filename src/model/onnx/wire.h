// From the bytes of an .onnx to its structure: the same protobuf message without the weights.
#pragma once

#include <google/protobuf/io/zero_copy_stream.h>

#include <string>

#include "base/result.h"
#include "base/units.h"

namespace ebbtide::model::onnx {

// What a file may ask of us. protobuf itself ends at 2 GiB; what is larger keeps its weights in external data.
inline constexpr Bytes kMostFileBytes = 2 * kGiB - 1;
inline constexpr Bytes kMostStructureBytes = 64 * kMiB;
inline constexpr std::int64_t kMostFields = 4'000'000;
// Data of a tensor up to this length is kept: shapes, axes, scalars. Longer data is skipped in the stream, unread.
inline constexpr Bytes kMostTensorDataBytes = 4 * kKiB;

// Copies what onnx_subset.proto lists and skips the rest. The result parses as ebbtide.onnx.ModelProto: nesting is as
// deep as that schema, whatever the file has, and every length lies within its parent. Errors name the byte and the
// place in the message.
Result<std::string> ReadStructure(google::protobuf::io::ZeroCopyInputStream& file, Bytes size);

}  // namespace ebbtide::model::onnx
