# Prints the words of the command that is to be run, one a line; fails where it has not begun.
function __rsys_sample_command
    set -l words (commandline -opc) (commandline -ct)
    set -e words[1]
    while set -q words[1]
        switch $words[1]
            case --
                set -e words[1]
                break
            case @LISTS@
                set -e words[1]
                set -q words[1]; and set -e words[1]
                while set -q words[2]; and contains -- $words[1] @BACKENDS@
                    set -e words[1]
                end
            case @VALUED@
                set -e words[1]
                set -q words[1]; and set -e words[1]
            case '-*'
                set -e words[1]
            case '*'
                break
        end
    end
    set -q words[1]; and printf '%s\n' $words
end

complete -c rsys-sample -n '__rsys_sample_command >/dev/null' -x \
    -a '(__fish_complete_subcommand --commandline (__rsys_sample_command))'

