// From the bytes of an .onnx to its structure: the same protobuf message without the weights.
#pragma once

#include <string>

#include "base/result.h"
#include "model/protobuf/structure.h"

namespace ebbtide::model::onnx {

using protobuf::kMostFields;
using protobuf::kMostFileBytes;
using protobuf::kMostTensorDataBytes;

// Copies what onnx_subset.proto lists and skips the rest. The result parses as ebbtide.onnx.ModelProto: nesting is as
// deep as that schema, whatever the file has, and every length lies within its parent. Errors name the byte and the
// place in the message.
Result<std::string> ReadStructure(google::protobuf::io::ZeroCopyInputStream& file, Bytes size);

}  // namespace ebbtide::model::onnx
