# SPDX-License-Identifier: GPL-3.0-or-later
# This file completes slimsim's commands, options, keys and values in bash. The program itself lists them.
# Bash splits words at '=', so the value of `model=` is a word of its own behind the word '='.
_slimsim() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} kept= key= words
    if [[ $current == = ]]; then
        key=$before current=
    elif [[ $before == = ]]; then
        key=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $current == [a-z]*=* ]]; then
        key=${current%%=*} kept=$key= current=${current#*=}
    fi
    if [[ $key == --* ]]; then
        before=$key key=
    fi
    if [[ -z $key ]]; then
        case $before in
        --model | --device | --platform | --attention | --kernels) key=${before#--} ;;
        -m) key=model ;;
        -d) key=device ;;
        esac
        [[ $verb == platform && $current != -* && -z $key ]] && key=platform
    fi
    if [[ -n $key ]]; then # what comes before the last comma of a list stays
        [[ $current == *,* ]] && kept+=${current%,*}, current=${current##*,}
        words=$(slimsim list values "$key" 2>/dev/null)
    elif ((COMP_CWORD == 1)); then
        words=$(slimsim --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
    elif [[ $before == --set || $before == -s || $before == --sweep || $before == -w ]]; then
        words=$(slimsim list values | sed 's/$/=/')
    elif [[ $verb == list && $before == values ]]; then
        words=$(slimsim list values)
    elif [[ $verb == list ]]; then
        words=$(slimsim list --help | sed -n '/|/{s/.* //p;q}' | tr '|' ' ')" values"
    elif [[ $verb == help ]]; then
        words=$(slimsim help | sed -n 's/^  \([a-z0-9-]*\) .*/\1/p')
    elif [[ $current == -* ]]; then
        words=$(slimsim "$verb" --help 2>/dev/null | sed -n 's/^ \+\(-., *\)\?\(--[a-z-]*=\?\).*/\2/p')
    else
        compopt -o filenames +o nospace
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
    fi
    mapfile -t COMPREPLY < <(compgen -P "$kept" -W "$words" -- "$current")
    [[ ${COMPREPLY[0]} != *= ]] && compopt +o nospace
}
complete -o nospace -F _slimsim slimsim
