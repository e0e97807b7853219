#!/usr/bin/env bash
# The pipeline of shared jobs in numbers: every interleaving of three jobs of four groups that run ahead of the device, and
# 100,000 random mixes in which jobs join, pause, abort and leave. Prints how many there were, and what failed. Takes some
# minutes.
#   share.sh [PART]   1/PART of the mixes
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake --build build --target share_test -- --quiet
trap 'echo "share: FAILED"' ERR
EBBTIDE_SOAK=1 build/tests/share_test --gtest_filter='Explore.AheadOfTheDevice' --gtest_brief=1
EBBTIDE_SOAK=$((100000 / ${1:-1})) build/tests/share_test --gtest_filter='RandomMix.*' --gtest_brief=1
echo "share: no deadlock, no collision, no job that starves"
