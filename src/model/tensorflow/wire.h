// From the bytes of a .pb to its structure: the same protobuf message without the weights.
#pragma once

#include <string>

#include "base/result.h"
#include "model/protobuf/structure.h"

namespace ebbtide::model::tensorflow {

enum class FileKind { kGraphDef, kSavedModel };

// Tells the two apart by the file's first field: a SavedModel begins with a number, its version, a GraphDef with a
// message.
FileKind KindOf(std::string_view begin);

// Copies what tensorflow_subset.proto lists; the result parses as ebbtide.tensorflow.GraphDef or SavedModel.
Result<std::string> ReadStructure(google::protobuf::io::ZeroCopyInputStream& file, Bytes size, FileKind kind);

}  // namespace ebbtide::model::tensorflow
