# SPDX-License-Identifier: GPL-3.0-or-later
# This file completes slimsim's commands, options and keys of --set and --sweep in bash. The program itself lists them.
_slimsim() {
    local command=${COMP_WORDS[1]} current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words
    if ((COMP_CWORD == 1)); then
        words=$(slimsim --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
    elif [[ $before == --set || $before == --sweep ]]; then
        words=$(slimsim list keys | sed -n '/^key *type/d; s/^\([a-z_]*[.a-zN_]*\)  .*/\1=/p')
    elif [[ $command == list ]]; then
        words=$(slimsim list --help | sed -n '/|/{s/.* //p;q}' | tr '|' ' ')
    elif [[ $command == help ]]; then
        words=$(slimsim help | sed -n 's/^  \([a-z-]*\) .*/\1/p')
    elif [[ $current == -* ]]; then
        words=$(slimsim "$command" --help 2>/dev/null | sed -n 's/^ \+\(-., *\)\?\(--[a-z-]*=\?\).*/\2/p')
    else
        compopt -o filenames +o nospace
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    [[ ${COMPREPLY[0]} != *= ]] && compopt +o nospace
}
complete -o nospace -F _slimsim slimsim
