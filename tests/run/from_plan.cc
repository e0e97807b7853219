// The random steps and plans of the planner's tests.
#include "tests/plan/random_plans.cc"
#include "tests/plan/random_step.cc"
