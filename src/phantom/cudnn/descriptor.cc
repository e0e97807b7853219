// Values of descriptors, and what finalizing checks and answers.
#include <algorithm>
#include <cstring>

#include "phantom/cudnn/backend.h"

namespace ebbtide::phantom {

namespace {

bool AllSet(const Descriptor& self) {
  return std::all_of(self.kind->attributes.begin(), self.kind->attributes.end(), [&](const AttributeRow& row) {
    if (row.use != AttributeUse::kRequired) return true;
    const Descriptor::Value* value = self.Find(row.name);
    return value != nullptr && value->count > 0;
  });
}

cudnnStatus_t FinalizeTensor(const Descriptor& self) {
  std::size_t rank = self.Integers(CUDNN_ATTR_TENSOR_DIMENSIONS).size();
  return rank == self.Integers(CUDNN_ATTR_TENSOR_STRIDES).size() ? CUDNN_STATUS_SUCCESS
                                                                 : CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
}

cudnnStatus_t FinalizeConvolution(const Descriptor& self) {
  auto rank = static_cast<std::size_t>(self.Integer(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS));
  for (auto name : {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                    CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS})
    if (self.Integers(name).size() != rank) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t FinalizeGraph(Descriptor& self) {
  for (const auto& operation : self.Find(CUDNN_ATTR_OPERATIONGRAPH_OPS)->descriptors)
    if (!operation->kind->is_operation) return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
  self.engines = EnginesOfGraph(self);
  if (self.engines.empty()) return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
  self.SetInteger(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, static_cast<std::int64_t>(self.engines.size()));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t FinalizeEngine(Descriptor& self) {
  const Descriptor& graph = *self.Reference(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  std::int64_t index = self.Integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  if (graph.kind->type != CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
  if (index < 0 || index >= static_cast<std::int64_t>(graph.engines.size())) return CUDNN_STATUS_NOT_SUPPORTED;
  const ConvolutionEngine& engine = graph.engines[static_cast<std::size_t>(index)];
  std::vector<int> notes;
  if (engine.uses_tensor_cores) notes.push_back(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  if (!engine.is_deterministic) notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  self.SetEnums(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes);
  self.SetEnums(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, {});
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t FinalizeConfiguration(Descriptor& self) {
  if (self.Reference(CUDNN_ATTR_ENGINECFG_ENGINE)->kind->type != CUDNN_BACKEND_ENGINE_DESCRIPTOR)
    return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
  self.SetInteger(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, EngineOfConfiguration(self).workspace);
  self.SetInteger(CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, 0);
  return CUDNN_STATUS_SUCCESS;
}

std::shared_ptr<const Descriptor> MakeConfiguration(const std::shared_ptr<const Descriptor>& graph, std::size_t index) {
  auto engine = std::make_shared<Descriptor>(*FindKind(CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  engine->SetReferences(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, {graph});
  engine->SetInteger(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, static_cast<std::int64_t>(index));
  engine->is_final = FinalizeEngine(*engine) == CUDNN_STATUS_SUCCESS;
  auto configuration = std::make_shared<Descriptor>(*FindKind(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  configuration->SetReferences(CUDNN_ATTR_ENGINECFG_ENGINE, {engine});
  configuration->is_final = FinalizeConfiguration(*configuration) == CUDNN_STATUS_SUCCESS;
  return configuration;
}

// All modes rank alike; the fallback offers only what takes no workspace.
cudnnStatus_t FinalizeHeuristics(Descriptor& self) {
  std::shared_ptr<const Descriptor> graph = self.SharedReference(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  if (graph->kind->type != CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
  bool is_fallback = self.Enum(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_FALLBACK;
  std::vector<std::shared_ptr<const Descriptor>> results;
  for (std::size_t i = 0; i < graph->engines.size(); ++i)
    if (!is_fallback || graph->engines[i].workspace == 0) results.push_back(MakeConfiguration(graph, i));
  self.SetReferences(CUDNN_ATTR_ENGINEHEUR_RESULTS, std::move(results));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t FinalizePlan(Descriptor& self) {
  const Descriptor& configuration = *self.Reference(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (configuration.kind->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
  const ConvolutionEngine& engine = EngineOfConfiguration(configuration);
  self.SetInteger(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, engine.workspace);
  self.SetText(
      CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
      std::string("{\"engine\": \"") + engine.name + "\", \"workspace\": " + std::to_string(engine.workspace) + "}");
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t FinalizePack(const Descriptor& self) {
  std::int64_t ids = self.Find(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->count;
  return ids == self.Find(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->count ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

}  // namespace

cudnnStatus_t FinalizeDescriptor(Descriptor& self) {
  if (!AllSet(self)) return CUDNN_STATUS_BAD_PARAM;
  switch (self.kind->type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: return FinalizeTensor(self);
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR: return FinalizeConvolution(self);
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: return FinalizeGraph(self);
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR: return FinalizeEngine(self);
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR: return FinalizeConfiguration(self);
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR: return FinalizeHeuristics(self);
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: return FinalizePlan(self);
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR: return FinalizePack(self);
    default: return CUDNN_STATUS_SUCCESS;
  }
}

const Descriptor::Value* Descriptor::Find(cudnnBackendAttributeName_t name) const {
  auto found = values.find(name);
  return found == values.end() ? nullptr : &found->second;
}

std::span<const std::int64_t> Descriptor::Integers(cudnnBackendAttributeName_t name) const {
  const Value* value = Find(name);
  if (!value || value->bytes.empty()) return {};
  return {reinterpret_cast<const std::int64_t*>(value->bytes.data()), static_cast<std::size_t>(value->count)};
}

std::int64_t Descriptor::Integer(cudnnBackendAttributeName_t name) const {
  std::span<const std::int64_t> values = Integers(name);
  return values.empty() ? 0 : values.front();
}

int Descriptor::Enum(cudnnBackendAttributeName_t name) const {
  const Value* value = Find(name);
  int out = 0;
  if (value && value->bytes.size() >= sizeof(out)) std::memcpy(&out, value->bytes.data(), sizeof(out));
  return out;
}

std::shared_ptr<const Descriptor> Descriptor::SharedReference(cudnnBackendAttributeName_t name) const {
  const Value* value = Find(name);
  return value && !value->descriptors.empty() ? value->descriptors.front() : nullptr;
}

const Descriptor* Descriptor::Reference(cudnnBackendAttributeName_t name) const { return SharedReference(name).get(); }

void Descriptor::SetInteger(cudnnBackendAttributeName_t name, std::int64_t value) {
  Value stored{.type = CUDNN_TYPE_INT64, .count = 1, .bytes = std::vector<std::byte>(sizeof(value)), .descriptors = {}};
  std::memcpy(stored.bytes.data(), &value, sizeof(value));
  values[name] = std::move(stored);
}

void Descriptor::SetEnums(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          const std::vector<int>& numbers) {
  Value stored{.type = type,
               .count = static_cast<std::int64_t>(numbers.size()),
               .bytes = std::vector<std::byte>(numbers.size() * sizeof(int)),
               .descriptors = {}};
  if (!numbers.empty()) std::memcpy(stored.bytes.data(), numbers.data(), stored.bytes.size());
  values[name] = std::move(stored);
}

void Descriptor::SetText(cudnnBackendAttributeName_t name, const std::string& text) {
  auto* bytes = reinterpret_cast<const std::byte*>(text.c_str());
  values[name] = {.type = CUDNN_TYPE_CHAR,
                  .count = static_cast<std::int64_t>(text.size() + 1),
                  .bytes = std::vector<std::byte>(bytes, bytes + text.size() + 1),
                  .descriptors = {}};
}

void Descriptor::SetReferences(cudnnBackendAttributeName_t name,
                               std::vector<std::shared_ptr<const Descriptor>> references) {
  auto count = static_cast<std::int64_t>(references.size());
  values[name] = {
      .type = CUDNN_TYPE_BACKEND_DESCRIPTOR, .count = count, .bytes = {}, .descriptors = std::move(references)};
}

const Descriptor& GraphOfConfiguration(const Descriptor& configuration) {
  return *configuration.Reference(CUDNN_ATTR_ENGINECFG_ENGINE)->Reference(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
}

const ConvolutionEngine& EngineOfConfiguration(const Descriptor& configuration) {
  const Descriptor& engine = *configuration.Reference(CUDNN_ATTR_ENGINECFG_ENGINE);
  const Descriptor& graph = *engine.Reference(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  return graph.engines[static_cast<std::size_t>(engine.Integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX))];
}

}  // namespace ebbtide::phantom
