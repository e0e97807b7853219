// Descriptors of the backend interface: named attributes, as attribute_table.h allows them, and what finalizing adds.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "device/workspace_rules.h"
#include "phantom/cudnn/attribute_table.h"

namespace ebbtide::phantom {

struct Descriptor {
  explicit Descriptor(const DescriptorKind& kind) : kind(&kind) {}

  struct Value {
    cudnnBackendAttributeType_t type;
    std::int64_t count = 0;
    std::vector<std::byte> bytes;                                // of plain types
    std::vector<std::shared_ptr<const Descriptor>> descriptors;  // they live on when the program destroys its handles
  };

  const DescriptorKind* kind;
  bool is_final = false;
  std::map<cudnnBackendAttributeName_t, Value> values;
  std::vector<ConvolutionEngine> engines;  // of an operation graph

  const Value* Find(cudnnBackendAttributeName_t name) const;
  std::span<const std::int64_t> Integers(cudnnBackendAttributeName_t name) const;
  std::int64_t Integer(cudnnBackendAttributeName_t name) const;  // 0 where it is not set
  int Enum(cudnnBackendAttributeName_t name) const;
  const Descriptor* Reference(cudnnBackendAttributeName_t name) const;
  std::shared_ptr<const Descriptor> SharedReference(cudnnBackendAttributeName_t name) const;

  void SetInteger(cudnnBackendAttributeName_t name, std::int64_t value);
  void SetEnums(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<int>& values);
  void SetText(cudnnBackendAttributeName_t name, const std::string& text);
  void SetReferences(cudnnBackendAttributeName_t name, std::vector<std::shared_ptr<const Descriptor>> references);
};

// Checks what was set and answers what can be asked for. `self` is not final yet.
cudnnStatus_t FinalizeDescriptor(Descriptor& self);

// The engines of a graph, in the order of the heuristics; empty where the graph is not modelled, which is then said.
std::vector<ConvolutionEngine> EnginesOfGraph(const Descriptor& graph);

// The engine that a configuration, or a plan by its configuration, stands for. Final descriptors only.
const ConvolutionEngine& EngineOfConfiguration(const Descriptor& configuration);
const Descriptor& GraphOfConfiguration(const Descriptor& configuration);

}  // namespace ebbtide::phantom
