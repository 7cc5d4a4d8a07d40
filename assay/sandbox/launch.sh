#!/bin/sh
# Starts an agent: credentials arrive on standard input, so that no inspect, history, commit or process list shows them.
#   launch CRED PROMPT -- ARGV...    CRED is `stdin` or `none`, PROMPT a file or `-`
# Lines of the header:  E NAME BASE64 (export)   F PATH MODE BASE64 (write a file)   . (the end)
cred=$1 prompt=$2
shift 3
plain() { printf %s "$1" | base64 -d; }
header() {
    while IFS=' ' read -r kind a b c; do
        case $kind in
        E) eval "$a=\$(plain \"\$b\")" && export "$a" || return 1 ;;
        F) mkdir -p "${a%/*}" && (umask 077 && plain "$c" >"$a") && chmod "$b" "$a" || return 1 ;;
        .) return 0 ;;
        *) return 1 ;;
        esac
    done
    return 1
}
if [ "$cred" = stdin ]; then
    # A printf that is a program would show what it prints in the process list.
    [ "$(command -v printf)" = printf ] && header || { echo "assay-launch: the credentials did not arrive" >&2; exit 97; }
fi
unset cred
unset -f header plain
if [ "$prompt" = - ]; then exec "$@" </dev/null; else exec "$@" <"$prompt"; fi
