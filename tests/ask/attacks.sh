exec 2>&1
id -u
try() { printf '%s: ' "$1"; shift; if "$@" >/dev/null 2>&1; then echo DONE; else echo refused; fi; }
try create touch new
try write sh -c 'echo changed > a.c'
try append sh -c 'echo changed >> a.c'
try truncate truncate -s 0 a.c
try chmod chmod 777 a.c
try chown chown 0:0 a.c
try times touch -d 2001-01-01 a.c
try rename mv a.c b.c
try delete rm -f a.c
try link ln a.c b.c
try mkdir mkdir d
try remount mount -o remount,rw /repo
try remount-bind mount -o remount,bind,rw /repo
try over mount -t tmpfs none "$PWD"
try umount umount -l /repo
try namespace unshare --mount --user --map-root-user mount -o remount,bind,rw /repo
try namespace-write unshare --mount --user --map-root-user sh -c 'mount -o remount,bind,rw /repo && echo x > a.c'
try through-proc sh -c "echo changed > /proc/1/root$PWD/a.c"
try through-fd sh -c 'exec 3<a.c; echo changed > /proc/self/fd/3'
numbers=$(awk '$5 == "/repo" {print $3}' /proc/self/mountinfo)
try device sh -c "mknod /scratch/disk b ${numbers%:*} ${numbers#*:} && head -c 512 /scratch/disk"
try mark rm /repo/.assay.json
cat > /scratch/calls.py <<'END'
import ctypes, os, sys

libc = ctypes.CDLL(None, use_errno=True)
REMOUNT, BIND, DETACH, MOUNT_SETATTR = 32, 4096, 2, 442
done = [
    libc.mount(None, b"/repo", None, REMOUNT | BIND, None),
    libc.mount(b"/repo", b"/scratch", None, BIND, None),
    libc.mount(b"none", b"/repo", b"tmpfs", 0, None),
    libc.umount2(b"/repo", DETACH),
    libc.syscall(MOUNT_SETATTR, -100, b"/repo", 0, (ctypes.c_uint64 * 4)(0, 1, 0, 0), 32),
]
sys.exit(0 if 0 in done else 1)
END
try system-calls python3 /scratch/calls.py
echo tried > /scratch/tried
