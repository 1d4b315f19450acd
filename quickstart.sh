#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Install what is missing, build, compare SlimPack with best-fit packing on 256 GPUs, draw the picture, write the report.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

./packages.sh run
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}
echo "quickstart.sh: building into build/release"
cmake --preset release
cmake --build --preset release

echo "quickstart.sh: simulating scenarios/quickstart.yaml"
build/release/slimsim run scenarios/quickstart.yaml --output results
/usr/bin/python3 analysis/timeline.py results/quickstart.h5 --output results/quickstart.png
/usr/bin/python3 analysis/report.py results/quickstart.h5 --output results/quickstart.html

echo "quickstart.sh: done. Trace: $PWD/results/quickstart.h5, picture: $PWD/results/quickstart.png,"
echo "  report for a browser: $PWD/results/quickstart.html"
