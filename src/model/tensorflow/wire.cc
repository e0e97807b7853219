// The parts of GraphDef's and SavedModel's schemas that are kept, as tables.
#include "model/tensorflow/wire.h"

namespace ebbtide::model::tensorflow {
namespace {

using protobuf::Content;
using protobuf::Field;
using protobuf::Message;

// The schema of tensorflow_subset.proto as a table.
constexpr Field kDimFields[] = {{1, "size", Content::kNumber}};
constexpr Message kDim{kDimFields};
constexpr Field kShapeFields[] = {{2, "dim", Content::kMessage, &kDim}, {3, "unknown_rank", Content::kNumber}};
constexpr Message kShape{kShapeFields};
constexpr Field kTensorFields[] = {
    {1, "dtype", Content::kNumber},
    {2, "tensor_shape", Content::kMessage, &kShape},
    {4, "tensor_content", Content::kTensorBytes},
    {5, "float_val", Content::kTensorFloats},
    {6, "double_val", Content::kTensorDoubles},
    {7, "int_val", Content::kTensorNumbers},
    {10, "int64_val", Content::kTensorNumbers},
    {11, "bool_val", Content::kTensorNumbers},
    {13, "half_val", Content::kTensorNumbers},
};
constexpr Message kTensor{kTensorFields};
constexpr Field kListFields[] = {{3, "i", Content::kNumber}, {6, "type", Content::kNumber}};
constexpr Message kList{kListFields};
constexpr Field kFunctionNameFields[] = {{1, "name", Content::kBytes}};
constexpr Message kFunctionName{kFunctionNameFields};
constexpr Field kAttributeFields[] = {
    {1, "list", Content::kMessage, &kList},
    {2, "s", Content::kBytes},
    {3, "i", Content::kNumber},
    {4, "f", Content::kFloat},
    {5, "b", Content::kNumber},
    {6, "type", Content::kNumber},
    {7, "shape", Content::kMessage, &kShape},
    {8, "tensor", Content::kMessage, &kTensor},
    {10, "func", Content::kMessage, &kFunctionName},
};
constexpr Message kAttribute{kAttributeFields};
constexpr Field kAttributeEntryFields[] = {{1, "key", Content::kBytes}, {2, "value", Content::kMessage, &kAttribute}};
constexpr Message kAttributeEntry{kAttributeEntryFields};
constexpr Field kNodeFields[] = {
    {1, "name", Content::kBytes},
    {2, "op", Content::kBytes},
    {3, "input", Content::kBytes},
    {5, "attr", Content::kMessage, &kAttributeEntry},
};
constexpr Message kNode{kNodeFields};
constexpr Field kArgumentFields[] = {{1, "name", Content::kBytes}, {3, "type", Content::kNumber}};
constexpr Message kArgument{kArgumentFields};
constexpr Field kSignatureOfFunctionFields[] = {{1, "name", Content::kBytes},
                                                {2, "input_arg", Content::kMessage, &kArgument},
                                                {3, "output_arg", Content::kMessage, &kArgument}};
constexpr Message kSignatureOfFunction{kSignatureOfFunctionFields};
constexpr Field kTextEntryFields[] = {{1, "key", Content::kBytes}, {2, "value", Content::kBytes}};
constexpr Message kTextEntry{kTextEntryFields};
constexpr Field kFunctionFields[] = {
    {1, "signature", Content::kMessage, &kSignatureOfFunction},
    {3, "node_def", Content::kMessage, &kNode},
    {4, "ret", Content::kMessage, &kTextEntry},
    {6, "control_ret", Content::kMessage, &kTextEntry},
};
constexpr Message kFunction{kFunctionFields};
constexpr Field kLibraryFields[] = {{1, "function", Content::kMessage, &kFunction}};
constexpr Message kLibrary{kLibraryFields};
constexpr Field kGraphFields[] = {{1, "node", Content::kMessage, &kNode}, {2, "library", Content::kMessage, &kLibrary}};
constexpr Message kGraph{kGraphFields};
constexpr Field kTensorInfoFields[] = {{1, "name", Content::kBytes}};
constexpr Message kTensorInfo{kTensorInfoFields};
constexpr Field kTensorInfoEntryFields[] = {{1, "key", Content::kBytes}, {2, "value", Content::kMessage, &kTensorInfo}};
constexpr Message kTensorInfoEntry{kTensorInfoEntryFields};
constexpr Field kSignatureFields[] = {{1, "inputs", Content::kMessage, &kTensorInfoEntry},
                                      {2, "outputs", Content::kMessage, &kTensorInfoEntry}};
constexpr Message kSignature{kSignatureFields};
constexpr Field kSignatureEntryFields[] = {{1, "key", Content::kBytes}, {2, "value", Content::kMessage, &kSignature}};
constexpr Message kSignatureEntry{kSignatureEntryFields};
constexpr Field kVariableFields[] = {{3, "trainable", Content::kNumber}, {6, "name", Content::kBytes}};
constexpr Message kVariable{kVariableFields};
constexpr Field kObjectFields[] = {{7, "variable", Content::kMessage, &kVariable}};
constexpr Message kObject{kObjectFields};
constexpr Field kObjectGraphFields[] = {{1, "nodes", Content::kMessage, &kObject}};
constexpr Message kObjectGraph{kObjectGraphFields};
constexpr Field kInfoFields[] = {{4, "tags", Content::kBytes}, {5, "tensorflow_version", Content::kBytes}};
constexpr Message kInfo{kInfoFields};
constexpr Field kMetaGraphFields[] = {
    {1, "meta_info_def", Content::kMessage, &kInfo},
    {2, "graph_def", Content::kMessage, &kGraph},
    {5, "signature_def", Content::kMessage, &kSignatureEntry},
    {7, "object_graph_def", Content::kMessage, &kObjectGraph},
};
constexpr Message kMetaGraph{kMetaGraphFields};
constexpr Field kSavedModelFields[] = {{1, "saved_model_schema_version", Content::kNumber},
                                       {2, "meta_graphs", Content::kMessage, &kMetaGraph}};
constexpr Message kSavedModel{kSavedModelFields};

}  // namespace

FileKind KindOf(std::string_view begin) {
  constexpr char kNumberOfFieldOne = 1 << 3;
  return !begin.empty() && begin[0] == kNumberOfFieldOne ? FileKind::kSavedModel : FileKind::kGraphDef;
}

Result<std::string> ReadStructure(google::protobuf::io::ZeroCopyInputStream& file, Bytes size, FileKind kind) {
  const Message* root = kind == FileKind::kSavedModel ? &kSavedModel : &kGraph;
  return protobuf::ReadStructure(file, size, {.article = "a", .name = "TensorFlow", .root = root, .tensor = &kTensor});
}

}  // namespace ebbtide::model::tensorflow
