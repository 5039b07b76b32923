# SPDX-License-Identifier: MIT
# For bash: completes the subcommands and options that `lockwire --help` lists, so that the two
# cannot differ, the names of held locks, and the COMMAND of run and lead.

_lockwire_options() { # COMMAND SUBCOMMAND: prints a line for each, with its value
    "$1" "$2" --help 2>/dev/null | sed -n 's/^  \(-.*\)/ \1/; T; s/   .*//; p' |
        grep -oE -- '(^|[^[:alnum:]-])--[a-z][a-z-]+( [A-Z]+)?' | sed 's/^[^-]*//' | sort -u
}

_lockwire_names() { # COMMAND LINE: a server that is slow to reply is not waited for
    local url=

    [[ ! $2 =~ [[:space:]]--redis[[:space:]=]+([^[:space:]]+)[[:space:]] ]] || url=${BASH_REMATCH[1]}
    [[ -n $url$LOCKWIRE_URL || $subcommand != release ]] || return # it has no default server
    timeout 1 "$1" list --json ${url:+--redis "$url"} 2>/dev/null |
        sed -nE 's/^\{"time":"[^"]*","name":"([^"\\]+)".*/\1/p'
}

_lockwire() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[0]} subcommand=${COMP_WORDS[1]} options i named=

    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "$("$command" --help 2>/dev/null |
            sed -nE 's/^  (-[a-zA-Z], )?(--)?([a-z]+) .*/\2\3/p')" -- "$word"))
        return
    fi
    options=$(_lockwire_options "$command" "$subcommand")
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --) break ;;
        -*) ! grep -q -- "^${COMP_WORDS[i]} [A-Z]" <<<"$options" || ((i++)) ;;
        [:=]) ((i++)) ;; # bash splits a URL there
        *) [ -z "$named" ] || break; named=yes ;;
        esac
    done
    if [[ $i -lt $COMP_CWORD || -n $named && $word != -* ]] &&
        [[ $i -le $COMP_CWORD && ($subcommand == run || $subcommand == lead) ]]; then
        [[ ${COMP_WORDS[i]} != -- ]] || ((i++))
        if declare -F _command_offset >/dev/null; then
            _command_offset "$i"
        else
            COMPREPLY=($(compgen -c -f -- "$word"))
        fi
    elif grep -q -- "^$before FILE" <<<"$options"; then
        COMPREPLY=($(compgen -f -- "$word"))
    elif [[ $word == -* ]] && ! grep -q -- "^$before [A-Z]" <<<"$options"; then
        COMPREPLY=($(compgen -W "$(cut -d ' ' -f 1 <<<"$options")" -- "$word"))
    elif [[ -z $named && $subcommand =~ ^(status|watch|yield|break|release)$ ]]; then
        word=${COMP_LINE:0:COMP_POINT} word=${word##*[[:space:]]} # bash splits it at each colon
        mapfile -t COMPREPLY < <(_lockwire_names "$command" "$COMP_LINE" | while IFS= read -r i; do
            [[ $i != "$word"* ]] || printf '%q\n' "${i#"${word%"${word##*:}"}"}"
        done)
    fi
}

complete -o bashdefault -F _lockwire lockwire
