// The part of ONNX's schema that is kept, as a table.
#include "model/onnx/wire.h"

namespace ebbtide::model::onnx {
namespace {

using protobuf::Content;
using protobuf::Field;
using protobuf::Message;

// The schema of onnx_subset.proto as a table.
constexpr Field kDimensionFields[] = {{1, "dim_value", Content::kNumber}, {2, "dim_param", Content::kBytes}};
constexpr Message kDimension{kDimensionFields};
constexpr Field kShapeFields[] = {{1, "dim", Content::kMessage, &kDimension}};
constexpr Message kShape{kShapeFields};
constexpr Field kTensorTypeFields[] = {{1, "elem_type", Content::kNumber}, {2, "shape", Content::kMessage, &kShape}};
constexpr Message kTensorType{kTensorTypeFields};
constexpr Field kTypeFields[] = {{1, "tensor_type", Content::kMessage, &kTensorType}};
constexpr Message kType{kTypeFields};
constexpr Field kValueInfoFields[] = {{1, "name", Content::kBytes}, {2, "type", Content::kMessage, &kType}};
constexpr Message kValueInfo{kValueInfoFields};
constexpr Field kTensorFields[] = {
    {1, "dims", Content::kNumber},
    {2, "data_type", Content::kNumber},
    {4, "float_data", Content::kTensorFloats},
    {5, "int32_data", Content::kTensorNumbers},
    {7, "int64_data", Content::kTensorNumbers},
    {8, "name", Content::kBytes},
    {9, "raw_data", Content::kTensorBytes},
    {10, "double_data", Content::kTensorDoubles},
};
constexpr Message kTensor{kTensorFields};
constexpr Field kAttributeFields[] = {
    {1, "name", Content::kBytes},
    {2, "f", Content::kFloat},
    {3, "i", Content::kNumber},
    {4, "s", Content::kBytes},
    {5, "t", Content::kMessage, &kTensor},
    {7, "floats", Content::kFloat},
    {8, "ints", Content::kNumber},
    {20, "type", Content::kNumber},
};
constexpr Message kAttribute{kAttributeFields};
constexpr Field kNodeFields[] = {
    {1, "input", Content::kBytes},
    {2, "output", Content::kBytes},
    {3, "name", Content::kBytes},
    {4, "op_type", Content::kBytes},
    {5, "attribute", Content::kMessage, &kAttribute},
    {7, "domain", Content::kBytes},
};
constexpr Message kNode{kNodeFields};
constexpr Field kGraphFields[] = {
    {1, "node", Content::kMessage, &kNode},
    {5, "initializer", Content::kMessage, &kTensor},
    {11, "input", Content::kMessage, &kValueInfo},
    {12, "output", Content::kMessage, &kValueInfo},
};
constexpr Message kGraph{kGraphFields};
constexpr Field kOperatorSetFields[] = {{1, "domain", Content::kBytes}, {2, "version", Content::kNumber}};
constexpr Message kOperatorSet{kOperatorSetFields};
constexpr Field kModelFields[] = {
    {1, "ir_version", Content::kNumber},
    {2, "producer_name", Content::kBytes},
    {3, "producer_version", Content::kBytes},
    {7, "graph", Content::kMessage, &kGraph},
    {8, "opset_import", Content::kMessage, &kOperatorSet},
};
constexpr Message kModel{kModelFields};

constexpr protobuf::Format kFormat = {.article = "an", .name = "ONNX", .root = &kModel, .tensor = &kTensor};

}  // namespace

Result<std::string> ReadStructure(google::protobuf::io::ZeroCopyInputStream& file, Bytes size) {
  if (size > kMostFileBytes) {
    return Fail("is of {}: expected less than 2 GiB, with the weights as external data", FormatBytes(size));
  }
  return protobuf::ReadStructure(file, size, kFormat);
}

}  // namespace ebbtide::model::onnx
