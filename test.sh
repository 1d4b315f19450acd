#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Install what is missing, build, run every test: first with the address and undefined-behaviour sanitizers, then as is
# with the checks of the sources. Other presets of CMakePresets.json: `./test.sh clang valgrind`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

./packages.sh test
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
[ $# -gt 0 ] || set -- asan dev
for preset; do
    echo "test.sh: building into build/$preset and running its tests"
    cmake --workflow --preset "$preset"
done
