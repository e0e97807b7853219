// Random steps and plans, ops that are arithmetic on bytes, and processes of their own, of other folders' tests.
#include "tests/phantom/fresh_process.cc"
#include "tests/plan/random_plans.cc"
#include "tests/plan/random_step.cc"
#include "tests/run/fake_runner.cc"
#include "tests/run/shared_cases.cc"
