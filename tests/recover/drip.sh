#!/bin/sh
# A CLI that says one numbered line at a time, keeps a session of its own, and goes on with it: `drip run|resume SESSION`.
# Its prompt sets, by lines such as `steps=5`, what it does; a resumed session remembers that.
# It ends between two steps, never within one, so that whatever it says is said once.
[ "$1" = --version ] && { echo "drip 1"; exit 0; }
mode=$1 session=$2 home=$HOME/.drip steps=10 delay=0.05 deaf=0 leak=0 mb=0 finish=0 other=0 volume=0
mkdir -p "$home"
if [ "$mode" = run ]; then
    grep -E '^[a-z]+=[0-9.]+$' >"$home/settings"
    : >"$home/$session.jsonl"
elif [ ! -e "$home/$session.jsonl" ]; then
    echo "no session $session" >&2
    exit 1
fi
. "$home/settings"
stop=
if [ "$deaf" = 1 ]; then trap '' TERM; else trap 'stop=1' TERM; fi
done=$(wc -l <"$home/$session.jsonl")
said=$session
[ "$mode" = resume ] && [ "$other" = 1 ] && said=00000000-0000-4000-8000-000000000000
printf '{"type":"system","subtype":"init","session_id":"%s","model":"drip-1","tools":["Bash"]}\n' "$said"
if [ "$leak" = 1 ]; then
    mkdir -p "$HOME/deep/er" /tmp/kept
    echo "key $DRIP_KEY" | tee "$home/environment" "$HOME/deep/er/notes" /tmp/kept/key /app/key.txt >&2
    printf '{"type":"note","key":"%s"}\n' "$DRIP_KEY"
    printf '%s' "$DRIP_KEY" | base64 >/app/key.b64
fi
[ "$volume" = 0 ] || [ "$mode" = resume ] || echo made | tee /data/made "$HOME/kept/made" >/dev/null
[ "$mb" = 0 ] || head -c "${mb}000000" /dev/urandom >"$HOME/big"
step=$done
while [ "$step" -lt "$steps" ]; do
    [ -n "$stop" ] && exit 143
    step=$((step + 1))
    echo "$step" >>"$home/$session.jsonl"
    line="{\"type\":\"assistant\",\"session_id\":\"$said\",\"uuid\":\"u$step\",\"n\":$step,\"message\":{\"id\":\"m$step\",\"model\":\"drip-1\",\"content\":[{\"type\":\"text\",\"text\":\"step $step\"}],\"usage\":{}}}"
    echo "$line" >>/app/said.jsonl
    echo "$line"
    sleep "$delay"
done
echo done >/app/done.txt
printf '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","num_turns":%s,"result":"done","session_id":"%s","total_cost_usd":0.01,"usage":{},"modelUsage":{},"model_usage_since_last_result":{"drip-1":{"inputTokens":%s,"outputTokens":1,"cacheReadInputTokens":0,"cacheCreationInputTokens":0,"costUSD":0.01}}}\n' "$step" "$said" "$((step - done))"
[ "$finish" = 0 ] || sleep "$finish"
