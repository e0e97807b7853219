#!/usr/bin/env bash
# Random plans and broken ones in numbers: 100,000 rollouts and 50,000 of each policy, 20,000 plans broken in every way.
# Prints what failed.
set -euo pipefail
cd "$(dirname "$0")/.."
EBBTIDE_SOAK=100000 build/tests/plan_test --gtest_filter='Agreement.*' --gtest_brief=1
EBBTIDE_SOAK=20000 build/tests/plan_test --gtest_filter='BrokenPlans.*' --gtest_brief=1
