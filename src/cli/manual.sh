#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# manual.sh PROGRAM prints the page slimsim(1). It consists of the program's help texts, with the topics of its pages.
set -eu
program=$1

roff() {
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"
}

section() {
    printf '.SH %s\n.nf\n' "$1"
    roff
    printf '.fi\n'
}

help=$("$program" --help)
printf '.TH SLIMSIM 1 "" "%s" ""\n.SH NAME\nslimsim \\- ' "$("$program" --version)"
echo "$help" | sed -n 2p | roff
echo "$help" | sed -e '1s/Usage: //' -e 2d | section SYNOPSIS
for command in $(echo "$help" | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
    "$program" "$command" --help | sed 's/^Usage: //' | section "SLIMSIM $command"
done
"$program" help | section TOPICS
