#!/usr/bin/env bash
# The pipeline of shared jobs in numbers: every interleaving of three jobs of four groups that run ahead of the device, and
# 100,000 random mixes in which jobs join, pause, abort and leave. Prints how many there were, and what failed. Takes some
# minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
EBBTIDE_SOAK=1 build/tests/share_test --gtest_filter='Explore.AheadOfTheDevice' --gtest_brief=1
EBBTIDE_SOAK=100000 build/tests/share_test --gtest_filter='RandomMix.*' --gtest_brief=1
