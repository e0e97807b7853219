// Facts about a file that hold before any shape is known: who makes and reads what, and which values come from
// constants and shapes alone.
#pragma once

#include <vector>

#include "model/onnx/file.h"

namespace ebbtide::model::onnx {

struct Analysis {
  std::vector<int> maker;    // by value: index of the node, -1: input, initializer or nothing
  std::vector<int> uses;     // by value: reads of its data by nodes, and one for a graph output
  std::vector<bool> host;    // by value: computed from constants and shapes, so that a framework knows it on the host
  std::vector<bool> weight;  // by value: a floating initializer of more than one element
};

Analysis Analyze(const File& file);

// By value: the initializers that a training changes. An initializer is a parameter if it is floating and is read at a
// place where operators take weights, directly or through views. In sums and products it must also be named as
// frameworks name parameters, and meet data rather than constants: masks and frequencies are constants.
std::vector<bool> FindParameters(const File& file, const Analysis& analysis);

}  // namespace ebbtide::model::onnx
