#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Install what is missing, build, run every test: `./test.sh`; with another preset of CMakePresets.json: `./test.sh asan`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

preset=${1:-dev}
./packages.sh test
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
echo "test.sh: building into build/$preset and running its tests"
cmake --workflow --preset "$preset"
