// What the backend interface knows of its descriptors: which attributes each kind has, their types, how many elements,
// and what has to be set. The rows are those of the comments in cudnn_graph.h.
#pragma once

#include <cstdint>
#include <span>

#include "phantom/cudnn/library.h"

namespace ebbtide::phantom {

enum class AttributeUse : std::uint8_t { kRequired, kOptional, kAnswer };  // kAnswer: can only be asked for

struct AttributeRow {
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  std::int64_t most = 1;  // elements
  AttributeUse use = AttributeUse::kRequired;
};

struct DescriptorKind {
  cudnnBackendDescriptorType_t type;
  const char* name;
  bool is_operation;
  std::span<const AttributeRow> attributes;

  const AttributeRow* Find(cudnnBackendAttributeName_t attribute) const;
};

// Null where the kind is not modelled.
const DescriptorKind* FindKind(cudnnBackendDescriptorType_t type);

// Bytes of one element; 0 where attributes have no such type.
std::size_t ElementSize(cudnnBackendAttributeType_t type);

}  // namespace ebbtide::phantom
