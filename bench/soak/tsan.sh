#!/usr/bin/env bash
# ThreadSanitizer over what has threads: the engine on both devices and its copies, jobs that share a pool, the tide allocator,
# the phantom GPU, and what searches with several threads. Builds their tests in build-tsan/ and runs them; prints what is
# found, and a line for each test program.
#   tsan.sh [PROGRAM ...]   some of them
set -euo pipefail
cd "$(dirname "$0")/../.."
declare -A tests=(
  [run_test]='*' [run_cuda_test]='*' [pool_scheduler_test]='*' [share_test]='*'
  [tide_test]='*' [tide_race_test]='*' [alloc_test]='*'
  [phantom_test]='Stress.*' [plan_test]='LargestBatch.*:Pareto*' [jobs_test]='*'
)
programs=("$@")
[ $# -gt 0 ] || programs=("${!tests[@]}")
cmake --preset tsan -D "Python_EXECUTABLE=$(scripts/setup-python)/bin/python" >/dev/null
cmake --build --preset tsan --target "${programs[@]}" -- --quiet
log=$(mktemp)
trap 'rm -f "$log"' EXIT
found=()
for name in "${programs[@]}"; do
  program=$(find build-tsan/tests -name "$name" -type f)
  # Each test with a GPU has processes of its own, which would all sleep for a second at their end.
  if TSAN_OPTIONS="atexit_sleep_ms=0" "$program" --gtest_brief=1 --gtest_filter="${tests[$name]:-*}" >"$log" 2>&1; then
    echo "$name: nothing found; $(tail -n 1 "$log")"
  else
    cat "$log"
    echo "$name: FOUND something"
    found+=("$name")
  fi
done
if [ ${#found[@]} -gt 0 ]; then
  echo "tsan: FOUND something in ${found[*]}"
  exit 1
fi
echo "tsan: nothing found in ${#programs[@]} test programs"
