# 10^7 random operations on 16 streams of the tide allocator under the race checker: nothing may be found.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --build build --target bench_tide_race -- --quiet
build/bench/bench_tide_race 10000000
