#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Install what is missing, build, and run every test once: C code with the address and undefined-behaviour sanitizers,
# then the program as users run it, pages and sources. Other presets of CMakePresets.json: `./test.sh dev clang`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

./packages.sh test
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
export CTEST_PARALLEL_LEVEL=${CTEST_PARALLEL_LEVEL:-$(nproc)}
[ $# -gt 0 ] || set -- asan once
for preset; do
    echo "test.sh: preset $preset builds and runs its tests"
    cmake --workflow --preset "$preset"
done
