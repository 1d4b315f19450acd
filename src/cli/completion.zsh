#compdef slimsim
# SPDX-License-Identifier: GPL-3.0-or-later
# This file completes slimsim's commands, options, keys and values in zsh. The program itself lists them.
_slimsim() {
    local before=$words[CURRENT-1] verb=$words[2] key
    case $before in
    --model | --device | --platform) key=${before#--} ;;
    -m) key=model ;;
    -d) key=device ;;
    -s | -w | --set | --sweep)
        if [[ $PREFIX != *=* ]]; then
            compadd -S = -- ${(f)"$(slimsim list values)"}
            return
        fi ;;
    esac
    if [[ $PREFIX == --(set|sweep)=* ]]; then
        compset -P '--(set|sweep)='
        if [[ $PREFIX != *=* ]]; then
            compadd -S = -- ${(f)"$(slimsim list values)"}
            return
        fi
    fi
    if [[ $PREFIX == [a-z]*=* ]]; then
        key=${PREFIX%%=*}
        compset -P '*[=,]'
    elif [[ $verb == platform && $PREFIX != -* && -z $key ]]; then
        key=platform
    fi
    if [[ -n $key ]]; then
        compadd -- ${(f)"$(slimsim list values $key 2>/dev/null)"}
    elif ((CURRENT == 2)); then
        compadd -- $(slimsim --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
    elif [[ $verb == list && $before == values ]]; then
        compadd -- ${(f)"$(slimsim list values)"}
    elif [[ $verb == list ]]; then
        compadd -- ${(s:|:)"$(slimsim list --help | sed -n '/|/{s/.* //p;q}')"} values
    elif [[ $verb == help ]]; then
        compadd -- $(slimsim help | sed -n 's/^  \([a-z0-9-]*\) .*/\1/p')
    elif [[ $PREFIX == -* ]]; then
        compadd -- $(slimsim $verb --help 2>/dev/null | sed -n 's/^ *\(-., *\)\{0,1\}\(--[a-z-]*\).*/\2/p')
    else
        _files
    fi
}
_slimsim "$@"
