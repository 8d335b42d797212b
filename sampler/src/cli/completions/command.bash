
# Completes the command and its arguments as they would be without rsys-sample, and options by the function above.
_rsys__sample_command() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"
    local at=1 marked="" in_list=""
    while (( at < COMP_CWORD )); do
        case "${COMP_WORDS[at]}" in
            --) marked=1; (( at += 1 )); break ;;
            @LISTS@) in_list=1; (( at += 2 )) ;;
            @VALUED@) in_list=""; (( at += 2 )) ;;
            @BACKENDS@) [[ $in_list ]] || break; (( at += 1 )) ;;
            -*) in_list=""; (( at += 1 )) ;;
            *) break ;;
        esac
        # `--option=value` is three words to bash.
        if [[ ${COMP_WORDS[at]} == "=" ]]; then
            (( at += 2 ))
        elif [[ ${COMP_WORDS[at-1]} == "=" ]]; then
            (( at += 1 ))
        fi
    done
    if (( at > COMP_CWORD )) || [[ ! $marked && $at == "$COMP_CWORD" && ( ! $cur || $cur == -* ) ]]; then
        if [[ $cur == "=" ]]; then
            cur=""
        elif [[ $prev == "=" ]]; then
            prev="${COMP_WORDS[COMP_CWORD-2]}"
        fi
        _rsys__sample "$1" "$cur" "$prev"
    elif declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$at"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$at"
    elif (( at == COMP_CWORD )); then
        COMPREPLY=( $(compgen -c -- "$cur") )
    fi
}

complete -F _rsys__sample_command -o bashdefault -o default rsys-sample
