#!/usr/bin/env bash
# scripts/peers/shedlock.sh: ShedLock's suite for its providers, which Maven fetches. scripts/test-peers.sh calls it.
set -euo pipefail

scripts/peers/maven ShedLockSuiteTest
