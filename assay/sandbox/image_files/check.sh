# check.sh SHOWS NAMES COMMAND...: the CLI starts as the agent's user, without the variables NAMES, and says SHOWS.
shows=$1 names=$2
shift 2
unset $names
HOME=/tmp/assay-check USER=agent
export HOME USER
mkdir -p "$HOME"
said=$("$@" 2>&1 </dev/null)
code=$?
rm -rf "$HOME"
printf '%s\n' "$said"
[ "$code" = 0 ] || { echo "$1 exited with $code"; exit 1; }
case $said in
*"$shows"*) ;;
*) echo "$1 did not say '$shows'"; exit 1 ;;
esac
