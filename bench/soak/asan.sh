#!/usr/bin/env bash
# AddressSanitizer and UndefinedBehaviorSanitizer over the C++ tests: builds them in build-asan/ and runs each in a process of
# its own, as many at a time as there are cores. Prints what is found.
#   asan.sh [PROGRAM ...]   test programs, base_test and such; all if none is named
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$(scripts/setup-python)/bin/python
cmake --preset asan -D "Python_EXECUTABLE=$python" >/dev/null
filter=()
if [ $# -gt 0 ]; then
  cmake --build --preset asan --target "$@" -- --quiet
  # A test's name begins with that of its program, which some write without "_test".
  names=$(printf '|%s' "$@" "${@%_test}")
  filter=(-R "^(${names#|})\.")
else
  cmake --build --preset asan -- --quiet
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ctest --test-dir build-asan -j "$(nproc)" --output-on-failure --no-tests=error "${filter[@]}" >"$log" 2>&1; then
  echo "asan: nothing found; $(grep '% tests passed' "$log")"
else
  grep -vE ' Passed +[0-9.]+ sec *$|^ +Start +[0-9]+: ' "$log"
  echo "asan: FOUND something"
  exit 1
fi
