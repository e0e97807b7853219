// What each operator's gradient computes and so keeps alive, as TensorFlow registers it.
#include "model/tensorflow/gradient.h"

namespace ebbtide::model::tensorflow {

// g: the gradient of the output; y: the output; a, b, c: the inputs; A, B: their shapes; numbers: constants. Total is
// the sum over the last axis, which stays. Gradients of operands that were broadcast are summed afterwards.
const std::vector<GradientFormula>& GradientFormulas() {
  // clang-format off
  static const std::vector<GradientFormula> formulas = {
      {"Add",     "g", "g", ""},
      {"AddV2",   "g", "g", ""},
      {"Sub",     "g", "Neg(g)", ""},
      {"Mul",     "Mul(g,b)", "Mul(a,g)", ""},
      {"RealDiv", "RealDiv(g,b)", "Mul(g,RealDiv(RealDiv(Neg(a),b),b))", ""},
      {"Div",     "RealDiv(g,b)", "Mul(g,RealDiv(RealDiv(Neg(a),b),b))", ""},
      {"DivNoNan", "DivNoNan(g,b)", "Mul(g,DivNoNan(DivNoNan(Neg(a),b),b))", ""},
      {"Pow",     "Mul(Mul(g,b),Pow(a,Sub(b,1)))", "", ""},
      {"Maximum", "SelectV2(GreaterEqual(a,b),g,0)", "SelectV2(GreaterEqual(a,b),0,g)", ""},
      {"Minimum", "SelectV2(LessEqual(a,b),g,0)", "SelectV2(LessEqual(a,b),0,g)", ""},
      {"SquaredDifference", "Mul(Mul(g,2),Sub(a,b))", "Neg(Mul(Mul(g,2),Sub(a,b)))", ""},
      {"SelectV2", "", "SelectV2(a,g,0)", "SelectV2(a,0,g)"},

      {"Neg",     "Neg(g)", "", ""},
      {"Abs",     "Mul(g,Sign(a))", "", ""},
      {"Square",  "Mul(g,Mul(a,2))", "", ""},
      {"Sqrt",    "SqrtGrad(y,g)", "", ""},
      {"Rsqrt",   "RsqrtGrad(y,g)", "", ""},
      {"Reciprocal", "ReciprocalGrad(y,g)", "", ""},
      {"Exp",     "Mul(g,y)", "", ""},
      {"Log",     "Mul(g,Reciprocal(a))", "", ""},
      {"Erf",     "Mul(g,Mul(Exp(Neg(Square(a))),2))", "", ""},
      {"Erfc",    "Mul(g,Mul(Exp(Neg(Square(a))),2))", "", ""},
      {"Sigmoid", "SigmoidGrad(y,g)", "", ""},
      {"Tanh",    "TanhGrad(y,g)", "", ""},
      {"Relu",    "ReluGrad(g,y)", "", ""},
      {"Relu6",   "Relu6Grad(g,y)", "", ""},
      {"Elu",     "EluGrad(g,y)", "", ""},
      {"Selu",    "SeluGrad(g,y)", "", ""},
      {"LeakyRelu", "LeakyReluGrad(g,a)", "", ""},
      {"Softplus",  "SoftplusGrad(g,a)", "", ""},
      {"Softmax",    "Mul(Sub(g,Total(Mul(g,y))),y)", "", ""},
      {"LogSoftmax", "Sub(g,Mul(Total(g),Exp(y)))", "", ""},

      {"BiasAdd", "g", "BiasAddGrad(g)", ""},
      {"Conv2D",  "Conv2DBackpropInput(A,b,g)", "Conv2DBackpropFilter(a,B,g)", ""},
      {"DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput(A,b,g)", "DepthwiseConv2dNativeBackpropFilter(a,B,g)", ""},
      {"MaxPool", "MaxPoolGrad(a,y,g)", "", ""},
      {"AvgPool", "AvgPoolGrad(A,g)", "", ""},

      {"Reshape",    "Reshape(g,A)", "", ""},
      {"Squeeze",    "Reshape(g,A)", "", ""},
      {"ExpandDims", "Reshape(g,A)", "", ""},
      {"StridedSlice", "StridedSliceGrad(A,b,c,d,g)", "", ""},
  };
  // clang-format on
  return formulas;
}

}  // namespace ebbtide::model::tensorflow
