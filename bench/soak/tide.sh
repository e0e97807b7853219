#!/usr/bin/env bash
# 10^7 random operations on 16 streams of the tide allocator under the race checker: nothing may be found.
#   tide.sh [OPERATIONS]
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --build build --target bench_tide_race -- --quiet
trap 'echo "tide: FOUND something"' ERR
build/bench/bench_tide_race "${1:-10000000}"
echo "tide: nothing found"
