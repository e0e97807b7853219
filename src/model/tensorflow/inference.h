// One node while the types and shapes of what it yields are found: what the rules in shapes*.cc are written with.
#pragma once

#include "model/tensorflow/flat.h"

namespace ebbtide::model::tensorflow {

class Inference {
 public:
  Inference(Flat& flat, FlatNode& node) : flat_(flat), node_(node) {}

  const FlatNode& node() const { return node_; }
  const std::string& op() const { return node_.op; }
  std::size_t inputs() const { return node_.inputs.size(); }
  Flat& flat() { return flat_; }

  // ---- Inputs. Expect comes first: the others take their numbers for granted.
  Status Expect(std::size_t least, std::size_t most) const;
  Status Expect(std::size_t exactly) const { return Expect(exactly, exactly); }
  const Value& In(std::size_t input) const { return flat_.value(node_.inputs[input]); }
  const Dims& Shape(std::size_t input) const { return In(input).shape; }
  // The same, of exactly so many axes.
  Result<Dims> Shape(std::size_t input, std::size_t axes) const;
  Type TypeOf(std::size_t input) const { return In(input).type; }
  const Array* Known(std::size_t input) const { return In(input).known ? &*In(input).known : nullptr; }
  // An input of whole numbers that have to be known: sizes, axes.
  Result<Dims> Integers(std::size_t input) const;
  // The same as a shape: none of them is negative.
  Result<Dims> ShapeFrom(std::size_t input) const;
  // The items of an input that is a list.
  Result<std::vector<ValueId>> List(std::size_t input) const;

  // ---- Attributes.
  std::int64_t Integer(std::string_view name, std::int64_t otherwise) const;
  bool Flag(std::string_view name, bool otherwise) const;
  std::string Text(std::string_view name, std::string_view otherwise) const;
  Dims Sizes(std::string_view name) const;  // of a list; empty where it is absent
  Type TypeFrom(std::string_view name, Type otherwise) const;

  // ---- What it yields.
  void Yield(Type type, Dims shape, std::optional<Array> known = std::nullopt);
  void YieldList(std::vector<ValueId> items);
  void YieldIntegers(const Dims& values, Type type);                            // a vector
  void YieldSame(ValueId value) { node_.outputs.push_back(value); }             // what another node has made already
  void Read(std::vector<ValueId> values) { node_.inputs = std::move(values); }  // these in place of its inputs

 private:
  Flat& flat_;
  FlatNode& node_;
};

using ShapeRule = Status (*)(Inference&);

// Appends outputs of the node, which is part of no graph yet: new values, or values of other nodes where it only hands
// them on. Errors do not name the node.
Status InferOutputs(Flat& flat, FlatNode& node, bool assume_elementwise);

// ---- The rules.
// shapes_pointwise.cc
Status InferSame(Inference& at);
Status InferIdentity(Inference& at);
Status InferSameAsSecond(Inference& at);
Status InferBroadcast(Inference& at);
Status InferCompare(Inference& at);
Status InferCast(Inference& at);
Status InferSelect(Inference& at);
Status InferBiasGradient(Inference& at);
Status InferCrossEntropy(Inference& at);
Status InferZeros(Inference& at);
// shapes_matrix.cc
Status InferMatMul(Inference& at);
Status InferBatchMatMul(Inference& at);
Status InferEinsum(Inference& at);
Status InferConvolution(Inference& at);
Status InferConvolutionInputGradient(Inference& at);
Status InferConvolutionFilterGradient(Inference& at);
Status InferPool(Inference& at);
Status InferAveragePoolGradient(Inference& at);
Status InferBatchNorm(Inference& at);
Status InferBatchNormGradient(Inference& at);
Status InferCudnnRecurrent(Inference& at);
Status InferCudnnRecurrentGradient(Inference& at);
// shapes_axes.cc
Status InferReduction(Inference& at);
Status InferArgument(Inference& at);
Status InferTranspose(Inference& at);
Status InferConcat(Inference& at);
Status InferSplit(Inference& at);
Status InferPack(Inference& at);
Status InferUnpack(Inference& at);
Status InferPad(Inference& at);
Status InferTile(Inference& at);
Status InferGather(Inference& at);
Status InferSegmentSum(Inference& at);
Status InferOneHot(Inference& at);
Status InferResize(Inference& at);
// shapes_slice.cc
Status InferSlice(Inference& at);
Status InferStridedSlice(Inference& at);
Status InferStridedSliceGradient(Inference& at);
// shapes_sizes.cc
Status InferShape(Inference& at);
Status InferSize(Inference& at);
Status InferReshape(Inference& at);
Status InferSqueeze(Inference& at);
Status InferExpandDims(Inference& at);
Status InferFill(Inference& at);
Status InferRange(Inference& at);
Status InferBroadcastGradient(Inference& at);
Status InferConcatOffset(Inference& at);
Status InferDynamicStitch(Inference& at);
Status InferInvertPermutation(Inference& at);
Status InferRandom(Inference& at);
Status InferRandomKey(Inference& at);
// shapes_state.cc
Status InferRead(Inference& at);
Status InferUpdate(Inference& at);
Status InferNothing(Inference& at);
Status InferAll(Inference& at);
// shapes_list.cc
Status InferListReserve(Inference& at);
Status InferListFromTensor(Inference& at);
Status InferListGet(Inference& at);
Status InferListSet(Inference& at);
Status InferListPush(Inference& at);
Status InferListPop(Inference& at);
Status InferListStack(Inference& at);
Status InferListLength(Inference& at);
Status InferListElementShape(Inference& at);
Status InferSum(Inference& at);

}  // namespace ebbtide::model::tensorflow
