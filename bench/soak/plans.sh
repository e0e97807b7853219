#!/usr/bin/env bash
# Random plans and broken ones in numbers: 100,000 schedules of every kind on which validator, simulator and a model of
# memory agree, half a million broken plans, and 100,000 schedules beside the lower bound. Prints how many of each there
# were, and what failed. Takes about a quarter of an hour.
#   plans.sh [PART]   1/PART of them
set -euo pipefail
cd "$(dirname "$0")/../.."
part=${1:-1}
cmake --build build --target plan_test -- --quiet
trap 'echo "plans: FAILED"' ERR
EBBTIDE_SOAK=$((100000 / part)) build/tests/plan_test --gtest_filter='Agreement.*' --gtest_brief=1
EBBTIDE_SOAK=$((100000 / part)) build/tests/plan_test --gtest_filter='Retention.*' --gtest_brief=1
EBBTIDE_SOAK=$((2000 / part)) build/tests/plan_test --gtest_filter='Decide.*' --gtest_brief=1
EBBTIDE_SOAK=$((25000 / part)) build/tests/plan_test --gtest_filter='BrokenPlans.*' --gtest_brief=1
EBBTIDE_SOAK=$((10000 / part)) build/tests/plan_test --gtest_filter='BoundTest.IsBelow*' --gtest_brief=1
echo "plans: validator, simulator, memory and bound agree"
