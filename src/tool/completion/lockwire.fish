# SPDX-License-Identifier: MIT
# For fish: completes the subcommands and options that `lockwire --help` lists, so that the two
# cannot differ, the names of held locks, and the COMMAND of run and lead.

function __lockwire_subcommands
    lockwire --help | string replace -rf '^  (?:-[a-zA-Z], )?((?:--)?[a-z]+)  +(.*)' '$1\t$2'
end

function __lockwire_options # prints a line for each of the subcommand, with its value
    set -l words (commandline -opc)
    lockwire $words[2] --help 2>/dev/null | string match -r '^  -.*' |
        string replace -r '   .*' '' | grep -oE -- '(^|[^[:alnum:]-])--[a-z][a-z-]+( [A-Z]+)?' |
        string replace -r '^[^-]*' '' | sort -u
end

function __lockwire_value # prints the kind of value that the word before the cursor takes
    set -l words (commandline -opc)
    __lockwire_options | string replace -rf -- "^$words[-1] ([A-Z]+)" '$1'
end

function __lockwire_arguments # prints the words that are no options, up to "--"
    set -l words (commandline -opc)
    set -l options (__lockwire_options)
    set -l skip 0
    for i in (seq 3 (count $words))
        if test $skip = 1
            set skip 0
        else if string match -q -- '-*' $words[$i]
            echo $i:$words[$i] | string match '*:--' && return
            string match -qr -- "^$words[$i] [A-Z]" $options && set skip 1
        else
            echo $i:$words[$i]
        end
    end
end

function __lockwire_names # a server that is slow to reply is not waited for
    set -l words (commandline -opc)
    set -l at (contains -i -- --redis $words) && set -l url --redis $words[(math $at + 1)]
    test -n "$url$LOCKWIRE_URL" -o $words[2] != release || return # it has no default server
    timeout 1 lockwire list --json $url 2>/dev/null |
        string replace -rf '^\{"time":"[^"]*","name":"([^"\\\\]+)".*' '$1'
end

function __lockwire_before_command # prints the number of words before COMMAND, if it has begun
    set -l arguments (__lockwire_arguments)
    if string match -q '*:--' $arguments
        string match -rg '^([0-9]+):--$' $arguments
    else if test (count $arguments) -gt 1
        math (string match -r '^[0-9]+' $arguments[2]) - 1
    end
end

function __lockwire_complete
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    if test (count $words) = 1
        __lockwire_subcommands
        return
    end
    set -l runs (contains $words[2] run lead; and echo yes)
    set -l before (__lockwire_before_command)
    set -l value (__lockwire_value)
    if test -n "$runs" -a -n "$before"
        complete -C (string join ' ' -- $words[(math $before + 1)..] $word)
    else if test "$value" = FILE
        __fish_complete_path $word
    else if test -n "$value"
        return
    else if string match -q -- '-*' $word
        __lockwire_options | string replace -r ' .*' ''
    else if test (count (__lockwire_arguments)) = 1 -a -n "$runs"
        complete -C "$word"
    else if test (count (__lockwire_arguments)) = 0; and contains $words[2] status watch yield break release
        __lockwire_names
    end
end

complete -c lockwire -f -a '(__lockwire_complete)'
