# After a CLI's install lines: everyone can read it, and one that needs Node brings its own, under a name that does
# not stand before the task's Node on PATH.
[ -d "$OUT/bin" ] || { echo "the install lines left nothing in \$OUT/bin"; exit 1; }
if [ "$NODE" = 1 ]; then
  mkdir -p "$OUT/node"
  cp /opt/assay/node/bin/node "$OUT/node/node"
  for command in "$OUT"/bin/*; do
    script=$(readlink -f "$command")
    if head -n 1 "$script" | grep -aq '^#!.*node'; then
      rm "$command"
      printf '#!/bin/sh\nexec %s/node/node %s "$@"\n' "$OUT" "$script" >"$command"
      chmod 0755 "$command"
    fi
  done
fi
chown -R 0:0 "$OUT"
chmod -R a+rX,go-w "$OUT"
