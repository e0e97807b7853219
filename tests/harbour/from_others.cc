// Random steps and plans, and ops that are arithmetic on bytes, of other folders' tests.
#include "tests/plan/random_plans.cc"
#include "tests/plan/random_step.cc"
#include "tests/run/fake_runner.cc"
#include "tests/run/shared_cases.cc"
