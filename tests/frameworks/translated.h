// Built-in models under another framework.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>

#include "graph/summary.h"
#include "model/model.h"

namespace ebbtide {

// Each is of the framework, and has the parameters that it has under PyTorch.
inline void ExpectTranslated(std::initializer_list<const char*> names, Framework framework) {
  for (const char* name : names) {
    model::ModelOptions options;
    options.batch_size = 2;
    const Result<TrainingGraph> pytorch = model::LoadModel(name, options);
    options.framework = framework;
    const Result<TrainingGraph> translated = model::LoadModel(name, options);
    ASSERT_TRUE(pytorch.has_value()) << pytorch.error().message;
    ASSERT_TRUE(translated.has_value()) << translated.error().message;
    EXPECT_EQ(Summarize(*translated).parameters, Summarize(*pytorch).parameters) << name;
    EXPECT_EQ(translated->framework, framework) << name;
  }
}

}  // namespace ebbtide
