#!/usr/bin/env bash
# ThreadSanitizer over what has threads: the engine on both devices and its copies, jobs that share a pool, the tide
# allocator. Builds their tests in build-tsan/ and runs them; prints what is found, and a line for each test program.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=(run_test run_cuda_test harbour_test share_test alloc_test tide_race_test)
cmake --preset tsan -D "Python_EXECUTABLE=$(scripts/setup-python)/bin/python" >/dev/null
cmake --build --preset tsan --target "${tests[@]}" -- --quiet
status=0
for test in "${tests[@]}"; do
  program=$(find build-tsan/tests -name "$test" -type f)
  log=$(mktemp)
  # Each test with a GPU has processes of its own, which would all sleep for a second at their end.
  if TSAN_OPTIONS="atexit_sleep_ms=0" "$program" --gtest_brief=1 >"$log" 2>&1; then
    echo "$test: nothing found; $(tail -n 1 "$log")"
  else
    cat "$log"
    echo "$test: FOUND something"
    status=1
  fi
  rm -f "$log"
done
exit $status
