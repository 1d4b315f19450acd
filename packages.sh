#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Install the Debian packages that are missing: `./packages.sh run` to build and run, `./packages.sh test` for the tests too.
set -euo pipefail

run=(build-essential cmake file pkg-config libsimgrid-dev libigraph-dev libgsl-dev libhdf5-dev libyaml-dev libexpat1-dev
    libjansson-dev libcsv-dev libglpk-dev zlib1g-dev python3 python3-h5py python3-matplotlib python3-numpy python3-pandas
    python3-tables python3-yaml)
test=(libcunit1-dev clang-14 clang-format-14 clang-tidy-14 valgrind python3-networkx python3-setuptools python3-venv
    python3-wheel slurm-wlm iproute2 chromium-driver python3-selenium mmdebstrap)

test+=(mypy python3-ipykernel python3-nbclient) # the Python package and its notebook
command -v npm >/dev/null || test+=(npm) # it gets axe-core, which looks at reports
test+=(r-base-core) # an example of docs/howto/other-tools.md
test+=(mkdocs mkdocs-material) # the site of docs/
case "${1:-}" in
run) wanted=("${run[@]}") ;;
test) wanted=("${run[@]}" "${test[@]}") ;;
*)
    echo "usage: packages.sh run|test" >&2
    exit 64
    ;;
esac

if ! command -v apt-get dpkg-query >/dev/null; then
    echo "packages.sh: no apt here; slimsim is built for Debian 12. Elsewhere install the like of: ${wanted[*]}" >&2
    exit 1
fi

missing=()
for package in "${wanted[@]}"; do
    state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "packages.sh: all ${#wanted[@]} Debian packages are installed"
    exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "packages.sh: neither root nor sudo; as root: apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi

apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@"
}

# Slurm is here for its programs: no service of it starts, where the system does not decide about that itself.
policy=/usr/sbin/policy-rc.d
if [[ " ${missing[*]} " == *" slurm-wlm "* ]] && [ ! -e $policy ]; then
    trap '"${as_root[@]}" rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee $policy >/dev/null
    "${as_root[@]}" chmod 755 $policy
fi

echo "packages.sh: installing ${missing[*]}"
# A bare system has no package lists, an old one has lists whose files are gone.
if ! apt install -s --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
    ! apt install -y --no-install-recommends "${missing[@]}"; then
    echo "packages.sh: reading the package lists anew"
    apt update
    apt install -y --no-install-recommends "${missing[@]}"
fi
