package contain

// attack is something that a job may try against the node, or against the job of another tenant on it.
type attack struct {
	name string
	// script prints POSSIBLE if it succeeds. It has the variables of victim.environment.
	script string
	// model is a path that the job, a training, names as its model; empty: it is a command. It may have variables of
	// victim.environment.
	model string
	// retried: the job has an output directory where jobs work, and a second attempt.
	retried bool
	// outlives: the attack succeeded if a process of it is alive after the end of the job.
	outlives bool
	// fails: the job may fail.
	fails bool
}

// attacks are those that succeeded when tasks ran as the agent's user with the run of the node, and more.
var attacks = []attack{
	{name: "read the log of another tenant's job", script: `grep -q SECRET $V_TASK/*.log && echo POSSIBLE`},
	{name: "read its outputs", script: `grep -q SECRET $V_OUT/secret && echo POSSIBLE`},
	{name: "read its outputs by way of /proc", script: `grep -q SECRET /proc/$V_PID/root$V_OUT/secret && echo POSSIBLE`},
	{name: "change its outputs", script: `echo more >> $V_OUT/secret && echo POSSIBLE`},
	{name: "read its environment", script: `grep -q SECRET_OF_ENVIRONMENT /proc/$V_PID/environ && echo POSSIBLE`},
	{name: "read its memory", script: `sh -c "exec 3< /proc/$V_PID/mem" && echo POSSIBLE`},
	{name: "read its files in /tmp", script: `grep -q SECRET $V_TMP && echo POSSIBLE`},
	{name: "read its files in /dev/shm", script: `grep -q SECRET $V_SHM && echo POSSIBLE`},
	{name: "see its processes", script: `[ -d /proc/$V_PID ] && echo POSSIBLE`},
	{name: "read its shared memory (System V)", script: shmOf("$V_SHM_KEY", `
at = libc.shmat(id, None, 0o10000)
if id >= 0 and ctypes.string_at(at, 6) == b"SECRET":
    print("POSSIBLE")`)},
	{name: "signal it", script: `kill -0 $V_PID && echo POSSIBLE`},
	{name: "stop it through its shim", script: `/usr/bin/python3 -c '
import os, socket
s = socket.socket(socket.AF_UNIX)
s.settimeout(5)
s.connect("\0" + os.environ["V_SOCKET"])
if s.recv(1):
    print("POSSIBLE")'`},
	{name: "read the configuration of the agent, with its secrets", script: `grep -q . $CONFIG && echo POSSIBLE`},
	{name: "read the key of the agent", script: `grep -q . $KEY && echo POSSIBLE`},
	{name: "read the key of the agent by way of /proc", script: `grep -q . /proc/$AGENT/root$KEY && echo POSSIBLE`},
	{name: "read the key of the agent behind the mounts, in a user namespace", script: `
unshare -Urm sh -c 'umount -l $(dirname $KEY); umount -l $DATA; grep -q . $KEY' && echo POSSIBLE`},
	{name: "read the key of the agent by naming it as its model", model: "$KEY", script: `grep -q . $KEY && echo POSSIBLE`},
	{name: "read another tenant's outputs by naming them as its model", model: "$V_OUT", script: `grep -q SECRET $V_OUT/secret && echo POSSIBLE`},
	{name: "write to the system by a link in the place of the next output directory", retried: true, script: `
[ $MIND_ATTEMPT -gt 1 ] || { ln -s /etc $(dirname $MIND_OUTPUT_DIR)/attempt-2; exit 1; }
touch $MIND_OUTPUT_DIR/mind-contain && rm $MIND_OUTPUT_DIR/mind-contain && [ ! -e /etc/mind-contain-none ] && [ $(readlink -f $MIND_OUTPUT_DIR) = /etc ] && echo POSSIBLE`},
	{name: "find the directories of other tasks", script: `ls $(dirname $V_TASK) | grep -q $(basename $V_TASK) && echo POSSIBLE`},
	{name: "enter the namespaces of the agent", script: `nsenter -t $AGENT -m -p true && echo POSSIBLE`},
	{name: "signal the agent", script: `kill -0 $AGENT && echo POSSIBLE`},
	{name: "kill the own shim", script: `[ $PPID -gt 0 ] && kill -0 $PPID && echo POSSIBLE`},
	{name: "change the own record", script: `d=$(dirname $MIND_METRICS_FILE); sh -c "echo x > $d/exit.json" && echo POSSIBLE`},
	{name: "outlive the lease: another session, no environment, forked twice", outlives: true, script: `
(setsid env -i sh -c 'exec sleep 456' & echo $! ) &
sleep 0.5`},
	{name: "outlive the lease: out of the control group, without its shim", outlives: true, fails: true, script: `
setsid env -i MARK=$MARK sh -c 'for f in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/unified/cgroup.procs; do [ -e $f ] && echo $$ > $f; done; exec sleep 456' &
sleep 0.5
if [ $PPID -gt 0 ]; then kill -9 $PPID; else kill -9 1; fi
sleep 0.5`},
	{name: "change what files of the system allow", script: `chmod o+x /etc/hostname && chmod o-x /etc/hostname && echo POSSIBLE`},
	{name: "change the system", script: `touch /etc/mind-contain && rm /etc/mind-contain && echo POSSIBLE`},
	{name: "change the settings of the machine", script: `cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness && echo POSSIBLE`},
	{name: "read the machine's passwords", script: `grep -q root /etc/shadow && echo POSSIBLE`},
	{name: "mount a file system", script: `mkdir -p $MIND_OUTPUT_DIR/m && mount -t tmpfs none $MIND_OUTPUT_DIR/m && umount $MIND_OUTPUT_DIR/m && echo POSSIBLE`},
	{name: "make a device of a disk", script: `mknod $MIND_OUTPUT_DIR/disk b 7 0 && echo POSSIBLE`},
	{name: "open a device that is neither listed nor leased", script: `sh -c "exec 3< $DEVICE" && echo POSSIBLE`},
	{name: "read the log of the kernel", script: `dd if=/dev/kmsg of=/dev/null bs=8192 count=1 iflag=nonblock && echo POSSIBLE`},
	{name: "reach services of the node by their sockets in /run", script: `/usr/bin/python3 -c '
import os, socket
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["SERVICE"])
print("POSSIBLE")'`},
	{name: "reach them by naming /run as its model", model: "/run", script: `/usr/bin/python3 -c '
import os, socket
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["SERVICE"])
print("POSSIBLE")'`},
	{name: "reach services of the node by network", script: `/usr/bin/python3 -c '
import os, socket
socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 5)
print("POSSIBLE")'`},
}

// shmOf returns a script that opens a segment of shared memory, and goes on in Python.
func shmOf(key, then string) string {
	return `KEY_OF_SHM=` + key + ` /usr/bin/python3 -c '
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
libc.shmat.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_int]
create = 0o1000 if len(sys.argv) > 1 else 0
id = libc.shmget(int(os.environ["KEY_OF_SHM"]), 64, create | 0o666)` + then + `'`
}

// victim prints where its things are, and waits.
var victim = `
echo SECRET > $MIND_OUTPUT_DIR/secret
echo SECRET
V_TMP=$(mktemp /tmp/mind-contain-XXXXXX); V_SHM=$(mktemp /dev/shm/mind-contain-XXXXXX)
cat $MIND_OUTPUT_DIR/secret > $V_TMP.txt; cat $MIND_OUTPUT_DIR/secret > $V_SHM.txt
V_SHM_KEY=$((0x6d000000 + $(od -An -N2 -tu2 /dev/urandom)))
` + shmOf("$V_SHM_KEY", `
ctypes.memmove(libc.shmat(id, None, 0), b"SECRET", 6)`) + ` create
trap 'ipcrm -M $V_SHM_KEY; rm -f $V_TMP $V_TMP.txt $V_SHM $V_SHM.txt; exit 0' TERM
echo V_TASK=$(dirname $MIND_METRICS_FILE)
echo V_OUT=$MIND_OUTPUT_DIR
echo V_PID=$$
echo V_TMP=$V_TMP.txt
echo V_SHM=$V_SHM.txt
echo V_SHM_KEY=$V_SHM_KEY
echo ready
while :; do sleep 0.2; done
`
