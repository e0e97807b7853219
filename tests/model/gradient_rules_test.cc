// The laws of the gradient table. What a rule saves is what its formulas read: lifetimes follow from reads alone.
#include "model/gradient_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "model/backward.h"

namespace ebbtide::model {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

// What formulas read besides what is saved: the gradients that arrive.
bool IsGradient(const std::string& name) { return name == "grad" || name == "grads"; }

std::set<std::string> SavedNamesRead(const GradientRule& rule) {
  std::set<std::string> names;
  for (const GradientStatement& statement : rule.backward) {
    for (const std::string& name : NamesRead(statement.formula)) {
      if (!IsGradient(name)) names.insert(name);
    }
  }
  return names;
}

// Functions over all of an op's tensors at once; they stand alone.
bool IsListFunction(const std::string& name) { return name == "parts" || name == "joined" || name == "stacked"; }

TEST(GradientRules, EveryKindHasOneRow) {
  std::vector<std::string> kinds = GradientRuleKinds();
  EXPECT_GT(kinds.size(), 100u);
  std::ranges::sort(kinds);
  EXPECT_EQ(std::ranges::adjacent_find(kinds), kinds.end());
  for (const std::string& kind : kinds) EXPECT_NE(FindGradientRule(kind), nullptr) << kind;
  EXPECT_EQ(FindGradientRule("no such op"), nullptr);
}

TEST(GradientRules, FormulasReadWhatIsSavedAndNothingElse) {
  for (const std::string& kind : GradientRuleKinds()) {
    const GradientRule& rule = *FindGradientRule(kind);
    EXPECT_TRUE(rule.on_cpu || rule.on_cuda) << kind;
    const std::set<std::string> read = SavedNamesRead(rule);
    if (rule.on_cpu) {
      EXPECT_THAT(rule.cpu_saves, UnorderedElementsAreArray(read)) << kind << " on the CPU";
    }
    if (rule.on_cuda) {
      EXPECT_THAT(rule.cuda_saves, UnorderedElementsAreArray(read)) << kind << " on CUDA";
    }
  }
}

void CheckCalls(const std::string& kind, const Formula& formula, bool nested) {
  if (!formula.is_call) {
    EXPECT_THAT(formula.operands, IsEmpty()) << kind;
    return;
  }
  if (IsFormulaFunction(formula.name)) {
    for (const Formula& operand : formula.operands) CheckCalls(kind, operand, true);
    return;
  }
  EXPECT_FALSE(nested) << kind << ": " << formula.name << " is not known to backward.cc";
  for (const Formula& operand : formula.operands) EXPECT_FALSE(operand.is_call) << kind << ": " << formula.name;
}

TEST(GradientRules, OnlyFunctionsAreNested) {
  for (const std::string& kind : GradientRuleKinds()) {
    for (const GradientStatement& statement : FindGradientRule(kind)->backward) {
      EXPECT_TRUE(statement.formula.is_call) << kind;
      CheckCalls(kind, statement.formula, false);
    }
  }
}

// A misspelt function would pass for a kernel: kernels of gradients carry their name, and the few others are these.
TEST(GradientRules, KernelsAreKernels) {
  const std::set<std::string> others = {"flipped_cumsum", "roll", "gather", "_grouped_mm", "index_select"};
  for (const std::string& kind : GradientRuleKinds()) {
    for (const GradientStatement& statement : FindGradientRule(kind)->backward) {
      const std::string& name = statement.formula.name;
      EXPECT_TRUE(IsFormulaFunction(name) || IsListFunction(name) || name.ends_with("_backward") ||
                  name.ends_with("_backward_data") || name.ends_with("_backward_") || others.contains(name))
          << kind << ": " << name;
    }
  }
}

TEST(GradientRules, TargetsAreArguments) {
  for (const std::string& kind : GradientRuleKinds()) {
    std::set<std::string> seen;
    for (const GradientStatement& statement : FindGradientRule(kind)->backward) {
      for (const std::string& target : statement.targets) {
        EXPECT_FALSE(target.starts_with("result") || IsGradient(target)) << kind << ": " << target;
        EXPECT_TRUE(seen.insert(target).second) << kind << ": two gradients for " << target;
      }
    }
  }
}

// In-place ops overwrite their input: its gradient may read the result, or a copy made before.
TEST(GradientRules, InPlaceActivationsDoNotReadWhatTheyOverwrote) {
  for (const std::string& kind : GradientRuleKinds()) {
    if (!kind.ends_with('_') || kind == "mul_" || kind == "div_") continue;
    EXPECT_FALSE(SavedNamesRead(*FindGradientRule(kind)).contains("self")) << kind;
  }
}

// The columns against what torch's autograd nodes hold (their _saved_ attributes).
TEST(GradientRules, Examples) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(FindGradientRule("relu_")->cpu_saves, Names{"result"});
  EXPECT_EQ(FindGradientRule("hardtanh_")->cpu_saves, Names{"original"});
  EXPECT_EQ(FindGradientRule("gelu")->cpu_saves, Names{"self"});
  EXPECT_THAT(FindGradientRule("add")->cpu_saves, IsEmpty());
  EXPECT_EQ(FindGradientRule("max_pool2d_with_indices")->cuda_saves, (Names{"self", "result1"}));
  EXPECT_FALSE(FindGradientRule("native_batch_norm")->on_cuda);
  EXPECT_FALSE(FindGradientRule("native_dropout")->on_cpu);
  EXPECT_EQ(FindGradientRule("native_dropout")->cuda_saves, Names{"result1"});
}

TEST(GradientRules, NamesReadHaveNoRepeats) {
  const Formula formula = FindGradientRule("div")->backward[0].formula;  // mul(neg(grad), div(div(self, other), other))
  EXPECT_EQ(NamesRead(formula), (std::vector<std::string>{"grad", "self", "other"}));
}

}  // namespace
}  // namespace ebbtide::model
