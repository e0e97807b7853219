// The backend (graph) interface: making, setting, finalizing, asking and executing descriptors.
#include "phantom/cudnn/backend.h"

#include <algorithm>
#include <cstring>

using namespace ebbtide::phantom;
using ebbtide::ConvolutionEngine;

namespace {

Handles<Descriptor>& Descriptors() {
  static auto* descriptors = new Handles<Descriptor>;
  return *descriptors;
}

std::string Place(const char* call, const Descriptor& descriptor, int attribute) {
  return std::string(call) + " of attribute " + std::to_string(attribute) + " of a cuDNN " + descriptor.kind->name;
}

// The seed of a random operation is a number or a tensor; scale factors come in either width.
bool TypeFits(const AttributeRow& row, cudnnBackendAttributeType_t type) {
  if (type == row.type) return true;
  if (row.type == CUDNN_TYPE_DOUBLE) return type == CUDNN_TYPE_FLOAT;
  return row.name == CUDNN_ATTR_OPERATION_RNG_SEED && type == CUDNN_TYPE_INT64;
}

}  // namespace

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* out) {
  CUDNN_CALL("cudnnBackendCreateDescriptor", type);
  if (!out) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  const DescriptorKind* kind = FindKind(type);
  if (!kind) return Refuse("cudnnBackendCreateDescriptor of type " + std::to_string(type));
  *out = Descriptors().Create(*kind).get();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  CUDNN_CALL("cudnnBackendDestroyDescriptor", descriptor);
  return Descriptors().Remove(descriptor) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t descriptor) {
  CUDNN_CALL("cudnnBackendInitialize", descriptor);
  std::shared_ptr<Descriptor> self = Descriptors().Find(descriptor);
  if (!self) return CUDNN_STATUS_BAD_PARAM;
  *self = Descriptor(*self->kind);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* elements) {
  CUDNN_CALL("cudnnBackendSetAttribute", descriptor, name, type, count);
  std::shared_ptr<Descriptor> self = Descriptors().Find(descriptor);
  if (!self) return CUDNN_STATUS_BAD_PARAM;
  if (self->is_final) return CUDNN_STATUS_NOT_INITIALIZED;
  const AttributeRow* row = self->kind->Find(name);
  if (!row) return Refuse(Place("cudnnBackendSetAttribute", *self, name));
  if (row->use == AttributeUse::kAnswer) return Refuse(Place("cudnnBackendSetAttribute", *self, name));
  if (!TypeFits(*row, type)) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
  if (count < 0 || count > row->most) return CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND;
  if (count > 0 && !elements) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  Descriptor::Value value{.type = type, .count = count, .bytes = {}, .descriptors = {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    auto* handles = static_cast<const cudnnBackendDescriptor_t*>(elements);
    for (std::int64_t i = 0; i < count; ++i) {
      std::shared_ptr<Descriptor> found = Descriptors().Find(handles[i]);
      if (!found) return CUDNN_STATUS_BAD_PARAM;
      if (!found->is_final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
      value.descriptors.push_back(std::move(found));
    }
  } else {
    auto* bytes = static_cast<const std::byte*>(elements);
    value.bytes.assign(bytes, bytes + static_cast<std::size_t>(count) * ElementSize(type));
  }
  self->values[name] = std::move(value);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  CUDNN_CALL("cudnnBackendFinalize", descriptor);
  std::shared_ptr<Descriptor> self = Descriptors().Find(descriptor);
  if (!self) return CUDNN_STATUS_BAD_PARAM;
  if (self->is_final) return CUDNN_STATUS_BAD_PARAM;
  cudnnStatus_t status = FinalizeDescriptor(*self);
  self->is_final = status == CUDNN_STATUS_SUCCESS;
  return status;
}

// `count` becomes what was written, or without a place for it, what there is. Descriptors that are asked for are
// written into descriptors of the program's.
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t requested, int64_t* count,
                                       void* elements) {
  CUDNN_CALL("cudnnBackendGetAttribute", descriptor, name, type, requested);
  std::shared_ptr<Descriptor> self = Descriptors().Find(descriptor);
  if (!self) return CUDNN_STATUS_BAD_PARAM;
  if (!self->is_final) return CUDNN_STATUS_NOT_INITIALIZED;
  const AttributeRow* row = self->kind->Find(name);
  if (!row) return Refuse(Place("cudnnBackendGetAttribute", *self, name));
  if (requested < 0) return CUDNN_STATUS_BAD_PARAM;
  const Descriptor::Value* value = self->Find(name);
  if (type != (value ? value->type : row->type)) return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
  std::int64_t available = value ? value->count : 0;
  std::int64_t given = std::min(requested, available);
  if (count) *count = elements ? given : available;
  if (!elements || !value) return CUDNN_STATUS_SUCCESS;
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    if (given > 0) std::memcpy(elements, value->bytes.data(), static_cast<std::size_t>(given) * ElementSize(type));
    return CUDNN_STATUS_SUCCESS;
  }
  auto* handles = static_cast<cudnnBackendDescriptor_t*>(elements);
  for (std::int64_t i = 0; i < given; ++i) {
    std::shared_ptr<Descriptor> target = Descriptors().Find(handles[i]);
    const Descriptor& source = *value->descriptors[static_cast<std::size_t>(i)];
    if (!target) return CUDNN_STATUS_BAD_PARAM;
    if (target->kind != source.kind) return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
    *target = source;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  CUDNN_HANDLE_CALL("cudnnBackendExecute", handle, plan, pack);
  std::shared_ptr<Descriptor> self = Descriptors().Find(plan);
  std::shared_ptr<Descriptor> data = Descriptors().Find(pack);
  if (!self || !data) return CUDNN_STATUS_BAD_PARAM;
  if (self->kind->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR ||
      data->kind->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
    return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
  if (!self->is_final || !data->is_final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  const ConvolutionEngine& engine = EngineOfConfiguration(*self->Reference(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
  std::span<const std::int64_t> workspace = data->Integers(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  if (engine.workspace > 0 && (workspace.empty() || workspace.front() == 0)) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  return Run(engine.name, *library, engine.time);
}

#if EBBTIDE_CUDA_GENERATION >= 13
cudnnStatus_t cudnnGetExecutionPlanWorkspaceSize(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                                 cudnnBackendDescriptor_t pack, size_t* bytes) {
  CUDNN_CALL("cudnnGetExecutionPlanWorkspaceSize", handle, plan, pack);
  std::shared_ptr<Descriptor> self = Descriptors().Find(plan);
  if (!bytes) return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
  if (!self || self->kind->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return CUDNN_STATUS_BAD_PARAM;
  if (!self->is_final) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
  *bytes = static_cast<std::size_t>(self->Integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  return CUDNN_STATUS_SUCCESS;
}
#endif
