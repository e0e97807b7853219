#!/usr/bin/env bash
# Every fuzzer for FUZZ_SECONDS, as many at a time as there are cores. Prints a line for each; fails if any found something.
# Inputs that lead to new code are kept in build-fuzz/corpus and are where the next run starts.
#   fuzz.sh [NAME ...]   some of them: onnx, trace, ...
set -euo pipefail
cd "$(dirname "$0")/../.."
export FUZZ_SECONDS=${FUZZ_SECONDS:-600}
names=("$@")
[ $# -gt 0 ] || names=($(cd fuzz && basename -s .cc -- *.cc))
scripts/setup-packages scripts/debian-packages-fuzz.txt
scripts/build-preset fuzz

fuzz_one() {
  local name=$1 corpus=build-fuzz/corpus/$1 findings=build-fuzz/findings/$1 log=build-fuzz/$1.log
  local options=(-max_total_time="$FUZZ_SECONDS" -timeout=60 -rss_limit_mb=2048 -artifact_prefix="$findings/")
  [ -e "fuzz/$name.dict" ] && options+=(-dict="fuzz/$name.dict")
  mkdir -p "$corpus" "$findings"
  local seeds=()
  [ -d "fuzz/corpus/$name" ] && seeds=("fuzz/corpus/$name")
  if "build-fuzz/fuzz/fuzz_$name" "${options[@]}" "$corpus" "${seeds[@]}" >"$log" 2>&1; then
    echo "fuzz_$name: nothing found. $(grep '^Done ' "$log")"
  else
    tail -n 40 "$log"
    echo "fuzz_$name: FOUND something; the input is in $findings/, the log in $log"
    return 1
  fi
}
export -f fuzz_one

if printf '%s\0' "${names[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'fuzz_one "$0"'; then
  echo "fuzz: nothing found by ${#names[@]} fuzzers in $FUZZ_SECONDS s each"
else
  echo "fuzz: FOUND something"
  exit 1
fi
