#!/usr/bin/env bash
# 1,000 programs that share a GPU, started and killed in a random order: never over the card, no share lost, none starved.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${EBBTIDE_BUILD:-build}
cmake --build "$build" --target broker_test > /dev/null
EBBTIDE_BROKER_STARTS=1000 "$build/tests/broker_test" --gtest_filter='Broker.StartsAndKills:Broker.NobodyStarves'
echo "broker: 2 x 1,000 starts, none over the card, none lost, none starved"
