# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs in a test pod: command lines, and the small POSIX shell scripts around them. Pure.

The scripts need a shell, ``sleep`` and what a shell has built in. Values come in as arguments of the script or by its
standard input, never in its text. Every program is ended by a watcher in the pod, so nothing outlives its time when the
controller is gone.

Words of a command that begin with @ are filled in by the pod for each slot: the partner's address (@a), a TCP port
(@p), bytes of a ping (@s), messages of a latency test (@i), the load of a bandwidth test (@l).
"""

from __future__ import annotations

from typing import List, NamedTuple, Sequence

Argv = List[str]

SCRATCH = "/rdma-fabric"
"""Folder of a test pod in which the scripts leave what they were told and what they found."""
PING_COUNT = 4
RPING_COUNT = 10
_IPV4_HEADERS = 28
_IPV6_HEADERS = 48

# A busybox shell prefers its own ping to the one of the image, unless it is named by its path.
_PROGRAM = r"""
r=$1
case $r in */*) ;; *)
  o=$IFS IFS=:
  for d in $PATH; do [ -x "$d/$1" ] && { r=$d/$1; break; }; done
  IFS=$o;;
esac
shift
"""

# Reads only. Empty slots of a GID table answer EINVAL. Soft RoCE, which alone has ``parent``, has no device link, or
# with old kernels that of the NIC below it (rxe_dma_device in drivers/infiniband/sw/rxe). A sub-function of mlx5 hangs
# on the auxiliary bus below its PCI function, which alone knows its CPUs: 0000:18:00.0/mlx5_core.sf.4.
# The trial of taskset is the way it is run: an old one of busybox knows no lists, and a profile may forbid it.
_LOOK = r"""
k=$2
get() { v=; { read -r v <"$1"; } 2>/dev/null; }
for n in /sys/class/net/*; do [ -e "$n" ] && echo "netdev|${n##*/}"; done
b=/sys/class/net/$1
for f in mtu operstate; do get "$b/$f"; echo "$f|$v"; done
for d in "$b"/device/infiniband/*; do [ -e "$d" ] && echo "own|${d##*/}"; done
for c in /dev/infiniband/*; do [ -e "$c" ] && echo "char|${c##*/}"; done
for d in /sys/class/infiniband/*; do
  [ -e "$d" ] || continue
  n=${d##*/}
  a=$(cd -P "$d/device" 2>/dev/null && pwd -P)
  [ -e "$d/parent" ] && a=
  s=
  case ${a##*/} in *.sf.*) s=/${a##*/} a=${a%/*};; esac
  echo "device|$n|${a##*/}$s"
  get "$a/local_cpulist"; echo "near|$n|$v"
  for p in "$d"/ports/*; do
    i=${p##*/}
    get "$p/state"; s=$v; get "$p/rate"; r=$v; get "$p/link_layer"
    echo "port|$n|$i|$v|$s|$r"
    for g in "$p"/gids/*; do
      get "$g"
      case $v in ''|0000:0000:0000:0000:0000:0000:0000:0000|fe80:*) continue;; esac
      w=$v; x=${g##*/}
      get "$p/gid_attrs/types/$x"; t=$v; get "$p/gid_attrs/ndevs/$x"
      echo "gid|$n|$i|$x|$w|$t|$v"
    done
  done
done
l=
{ while read -r a b c; do
  case "$a $b $c" in "|-- "*) l=$b;; "/32 host LOCAL"*) echo "local|$l";; esac
done </proc/net/fib_trie; } 2>/dev/null
{ while read -r a b c d e f; do echo "local6|$a|$f"; done </proc/net/if_inet6; } 2>/dev/null
for f in online isolated; do get "/sys/devices/system/cpu/$f"; echo "$f|$v"; done
c=
{ while read -r a b; do [ "$a" = Cpus_allowed_list: ] && c=$b; done </proc/self/status; } 2>/dev/null
echo "cpus|$c"
set -- taskset -c "$c" sh -c :
"""
_TRY = r"""
"$r" "$@" >/dev/null 2>&1 </dev/null && echo "taskset|works"
"""
# Whether the kernel has a module that lets NICs reach GPU memory, and what the image's perftest can do with that. Where
# the runtime uses CDI, /proc has every GPU of the host; /dev has those of the pod.
_LOOK_FOR_GPU = rf"""
if [ "$k" = gpu ]; then
  for m in nvidia_peermem nv_peer_mem; do [ -e "/sys/module/$m" ] && echo "peer|$m"; done
  for g in /proc/driver/nvidia/gpus/*; do
    while read -r a b c; do
      [ "$a $b" = "Device Minor:" ] && [ -e "/dev/nvidia$c" ] && echo "gpu|${{g##*/}}"
    done <"$g/information"
  done 2>/dev/null
  set -- ib_write_bw --help
  {_PROGRAM}
  h=$("$r" "$@" 2>&1 </dev/null)
  case $h in *--use_cuda=*) echo "cuda|memory";; esac
  case $h in *--use_cuda_dmabuf*) echo "cuda|dmabuf";; esac
  case $h in *libcuda.so*) echo "cuda|no_driver";; esac
fi
echo end
"""
_PROBE = _LOOK + _PROGRAM + _TRY + _LOOK_FOR_GPU

# What a pod does with the table of ``campaign.table``: each of its slots begins at a time of /proc/uptime, and each
# test of it ends at one, whatever becomes of the partner: a program is killed then, so delays never add up. A client
# comes again while it is refused. Times are in hundredths of a second. Prints what ``campaign.read_words`` reads: of a
# program that went well its numbers (of a server side nothing), of another one all that it said, of counters by how
# much they rose.
# Where a device is shared by network namespaces, the sysfs of a pod has no counters (is_full_dev in the kernel's
# drivers/infiniband/core/sysfs.c); netlink tells the driver's own there.
_COUNTING = r"""
set -f
b=$1 known= device=- header=
now() { read -r u x </proc/uptime; u=${u%.*}${u#*.}; }
nap() { sleep 0.2 2>/dev/null || sleep 1; }
await() { while now; [ $u -lt $1 ]; do l=$((($1-u)/100)); if [ $l -gt 1 ]; then sleep $((l-1)); else nap; fi; done; }
count() {
  c= i=0
  [ "$device" = - ] && return
  for f in $known; do
    i=$((i+1))
    for g in counters/ hw_counters/ hw_counters/vport_; do
      v=; { read -r v <"/sys/class/infiniband/$device/ports/$number/$g$f"; } 2>/dev/null
      case $v in ''|*[!0-9]*) ;; *) c="$c ${g%"${g#?}"}$i=$v";; esac
    done
  done
  [ -z "$c" ] || return
  y=" $(rdma statistic show link "$device/$number" 2>/dev/null) " i=0
  for f in $known; do
    i=$((i+1))
    case $y in *" $f "[0-9]*) v=${y#*" $f "}; c="$c h$i=${v%% *}";; esac
  done
}
rose() {
  m=
  for x in $c; do
    case "$was " in
      *" $x "*) ;;
      *" ${x%%=*}="*) y=${was##*" ${x%%=*}="}; m="$m ${x%%=*}+$((${x#*=}-${y%% *}))";;
    esac
  done
}
run() {
"""
_RUNNING = r"""
  "$r" "$@" >"$b.out" 2>&1 </dev/null & p=$!
  ( while kill -0 $p; do now; [ $u -lt $end ] || { kill -9 $p; break; }; nap; done ) >/dev/null 2>&1 & w=$!
  wait $p; s=$?
  kill $w; wait $w
}
refused() {
  while read -r l || [ -n "$l" ]; do
    case $l in *"Couldn't connect to"*|*"onnection refused"*|*REJECTED*) return 0;; esac
  done <"$b.out"
  return 1
}
brief() {
  q= h=
  while read -r x y z v o || [ -n "$x" ]; do
    set -- $x $y $z $v $o
    case "$side $x $y" in
      *" CUDA device") q="$q gpu=${o##* }";;
      server*) ;;
      *" "[0-9]*" packets") q="$q $x $v";;
      *" rtt "*|*" round-trip "*) v=${v#*/}; q="$q ${v%%/*}";;
      *" #bytes "*) h="$*";;
      *" "[0-9]*" "[0-9]*) q="$q $*";;
    esac
    case "$*" in *mismatch*|*alidat*) return 1;; esac
  done <"$b.out"
  case $h in ''|"$bandwidth"|"$latency"|"$header") ;; *) echo "h|$k|$h"; header=$h;; esac
  [ -n "$q" ] || [ $k = r ] || [ $side = server ]
}
told() {
  { tail -c 3000 "$b.out" 2>/dev/null || while read -r l; do printf '%s\n' "$l"; done <"$b.out"; } |
    while read -r l || [ -n "$l" ]; do printf '%s\n' "o|$n|$k|$l"; done
}
"""
_FUNCTIONS = _COUNTING + _PROGRAM + _RUNNING
_SLOTS = r"""
now
while read -r what n role peer size times load; do
  case $what in
    at) t=$((u+n)) slot=$role late=$peer port=$size;;
    of) device=$n number=$role;;
    known) known="$n $role $peer $size $times $load";;
    bandwidth) bandwidth="$n $role $peer $size $times $load";;
    latency) latency="$n $role $peer $size $times $load";;
    slots) count; echo "b$c";;
    slot)
      begin=$((t+n*slot)) j=0 said=
      await $begin
      if [ $u -gt $((begin+late)) ]; then echo "$n|late"; continue; fi
      while read -r what k e side argv; do
        [ "$what" = "$role" ] || continue
        j=$((j+1)) end=$((begin+e))
        set --
        for x in $argv; do
          case $x in
            @a) x=$peer;; @s) x=$size;; @i) x=$times;; @l) x=$load;; @p) x=$((port+n%1000*8+j));;
          esac
          set -- "$@" $x
        done
        case $k in p|r) c=;; *) count;; esac
        was=$c
        now; from=$u
        while :; do
          run "$@"; now
          [ $s != 0 ] && [ $side = client ] && [ $((end-u)) -gt 50 ] && refused || break
          nap
        done
        case $k in p|r) ;; *) count;; esac
        rose
        if [ $s = 0 ] && brief; then :; else q=; told; fi
        [ "$side$s$q$m" = server0 ] || said="$said|$k$s $(((u-from)/10))$q$m"
      done <"$b.table"
      echo "$n$said";;
  esac
done <"$b.table"
: >"$b.done"
"""

_BEGIN = rf"""
b=$1
rm -f "$b.done" 2>/dev/null
while read -r l && [ "$l" != end ]; do printf '%s\n' "$l"; done >"$b.table"
[ "$l" = end ] || {{ echo cut; exit 1; }}
( {_FUNCTIONS}{_SLOTS} ) >"$b.results" 2>/dev/null </dev/null &
echo begun
"""

# What a campaign has printed, once it is over or after $2 seconds: where a program can't be killed, that is still told.
_COLLECT = r"""
read -r u x </proc/uptime
e=$((${u%.*}+$2))
while [ ! -e "$1.done" ] && read -r u x </proc/uptime && [ ${u%.*} -lt $e ]; do sleep 1; done
while read -r l; do printf '%s\n' "$l"; done <"$1.results"
[ -e "$1.done" ] && echo end
"""


class Load(NamedTuple):
    """What one bandwidth test sends: bytes a message, messages a queue pair, queue pairs."""

    size: int
    iterations: int
    queue_pairs: int


# 20 GB: half a second on 400 Gb/s, and four queue pairs fill it. Software moves about as many MB in its second.
HARDWARE_LOAD = Load(1024 * 1024, 5000, 4)
SOFTWARE_LOAD = Load(64 * 1024, 100, 1)


def probe(interface: str, *, gpu: bool = False, stay: bool = False) -> Argv:
    """Return the command that prints what ``endpoint.read_probe`` reads; with ``gpu`` also of GPU memory.

    With ``stay`` it is the command of a test pod, which has its addresses in the device's table some moments after it
    has its interface.
    """
    script = f"sleep 1\n{_PROBE}exec sleep infinity" if stay else _PROBE
    return ["sh", "-c", script, "probe", interface, "gpu" if gpu else "-"]


LATENCY_ITERATIONS = 1000
SOFTWARE_LATENCY_ITERATIONS = 100


class UsedPort(NamedTuple):
    """The port that one side of a test uses, whose counters are read around it; without GID index it is InfiniBand."""

    device: str
    number: int
    gid_index: int | None


def begin(tag: str) -> Argv:
    """Return the command that takes a table from its standard input, and begins with it; ``tag`` names its files."""
    return ["sh", "-c", _BEGIN, "begin", f"{SCRATCH}/{tag}"]


def collect(tag: str, grace: int) -> Argv:
    """Return the command that prints what was found by a table, once it is done or after ``grace`` seconds."""
    return ["sh", "-c", _COLLECT, "collect", f"{SCRATCH}/{tag}", str(grace)]


def ping(interface: str) -> Argv:
    """Return the ping of as many bytes as a slot says, which forbids cutting them."""
    options = ["-n", "-c", str(PING_COUNT), "-i", "0.3", "-W", "2", "-M", "do", "-s", "@s"]
    return ["ping", *options, "-I", interface, "@a"]


def ping_size(address: str, mtu: int) -> int:
    """Return the bytes of a ping to ``address`` that fills a packet of ``mtu`` bytes."""
    return max(mtu - (_IPV6_HEADERS if ":" in address else _IPV4_HEADERS), 0)


def rping(own: str, *, server: bool) -> Argv:
    """Return one side of rping; the client's compares every byte that comes back (-V)."""
    side = ["-s", "-a", own] if server else ["-c", "-a", "@a"]
    return ["rping", *side, "-p", "@p", "-C", str(RPING_COUNT), "-V", "-v"]


def write_bandwidth(port: UsedPort, *, server: bool, memory: Sequence[str] = ()) -> Argv:
    """Return one side of ib_write_bw; both sides of a slot have its load."""
    return _perftest("ib_write_bw", port, ["--report_gbits", "@l", *memory], server=server)


def load_words(load: Load, most_gbps: float | None = None) -> Argv:
    """Return what a slot says of the load of a bandwidth test, which may send ``most_gbps`` on all queue pairs.

    perftest itself keeps to it, message by message: by default it sends as many at once as its queue has room for.
    """
    limit = ["--rate_limit", f"{most_gbps:g}", "--rate_limit_type", "SW", "--burst_size", "1"] if most_gbps else []
    return ["-s", str(load.size), "-n", str(load.iterations), "-q", str(load.queue_pairs), *limit]


def write_latency(port: UsedPort, *, server: bool) -> Argv:
    """Return one side of ib_write_lat, as ``write_bandwidth``; messages are the smallest it sends by default."""
    return _perftest("ib_write_lat", port, ["-n", "@i"], server=server)


def _perftest(program: str, port: UsedPort, options: Sequence[str], *, server: bool) -> Argv:
    index = [] if port.gid_index is None else ["-x", str(port.gid_index)]
    argv = [program, "-d", port.device, "-i", str(port.number), *index, "-F", *options, "-p", "@p"]
    return argv if server else [*argv, "@a"]
