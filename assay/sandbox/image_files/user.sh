# Gives uid and gid 1000 a line in passwd and group (Node refuses to start without one) and a home of their own.
# Uses the shell's own words as far as it can: a small image may have little else.
set -eu
rm -rf /opt/assay/build

# 0 if FILE has an entry for id 1000; `prefix` is set if the name agent belongs to another id.
lists() {
  prefix='' found=1 line='' unended=''
  [ -e "$1" ] || : >"$1"
  while IFS= read -r line || { [ -n "$line" ] && unended=1; }; do
    rest=${line#*:}
    rest=${rest#*:}
    [ "${rest%%:*}" != 1000 ] || found=0
    [ "${line%%:*}" != agent ] || prefix=assay-
  done <"$1"
  # A last line without its newline would swallow the one that is added.
  [ -z "$unended" ] || echo >>"$1"
  return $found
}

lists /etc/group || echo "${prefix}agent:x:1000:" >>/etc/group
lists /etc/passwd || echo "${prefix}agent:x:1000:1000:agent:/home/agent:/bin/sh" >>/etc/passwd
mkdir -p /home/agent
chown 1000:1000 /home/agent
chmod 0700 /home/agent
