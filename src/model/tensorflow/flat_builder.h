// Adds nodes to a flat graph: what gradients and built-in models are written with.
#pragma once

#include "model/tensorflow/inference.h"

namespace ebbtide::model::tensorflow {

// The first complaint is kept and goes with error(); from then on nothing is added and values are kNone.
class FlatBuilder {
 public:
  explicit FlatBuilder(Flat& flat) : flat_(flat) {}

  // Nodes made from here on carry this name and belong to the gradient of that node.
  void At(std::string name, int gradient_of = kNone) {
    name_ = std::move(name);
    gradient_of_ = gradient_of;
  }

  // Adds a node and gives its outputs. Where all of them are known, or values that there are already, no node is added.
  std::vector<ValueId> MakeAll(std::string op, std::vector<ValueId> inputs, Attributes attributes = {});
  // The same, of which the first output is given.
  ValueId Make(std::string op, std::vector<ValueId> inputs, Attributes attributes = {});

  ValueId Integers(Dims values);  // a constant vector
  ValueId Integer(std::int64_t value);
  ValueId Real(double value);
  ValueId Input(std::string name, DType dtype, Dims shape);
  // The value of a new variable.
  ValueId Read(Variable variable);
  ValueId Handle(int variable);
  // Turns a value, as a rule a constant of the file, into that of a new variable.
  void MakeVariable(ValueId value, Variable variable);

  const Dims& Shape(ValueId id) const { return flat_.value(id).shape; }
  void Fail(const std::string& message);
  const std::optional<Error>& error() const { return error_; }
  Flat& flat() { return flat_; }

 private:
  ValueId Add(Value value);

  Flat& flat_;
  std::string name_;
  int gradient_of_ = kNone;
  std::optional<Error> error_;
};

}  // namespace ebbtide::model::tensorflow
