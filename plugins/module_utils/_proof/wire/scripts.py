# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs in a test pod: command lines, and the small POSIX shell scripts around them. Pure.

The scripts need a shell, ``sleep`` and what a shell has built in. Values come in as arguments of the script, never in
its text. Every program is ended by a watcher in the pod, so nothing outlives its time when the controller is gone.
"""

from __future__ import annotations

from typing import List, NamedTuple, Sequence

Argv = List[str]

SCRATCH = "/rdma-fabric"
"""Folder of a test pod in which the scripts leave the output of a server side."""
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
for f in address mtu operstate; do get "$b/$f"; echo "$f|$v"; done
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

# The counters of port $2 of device $1, as ``counters.split_counters`` reads them; $3 says when. A counter that cannot
# be read, or has no number, is left out. Where a device is shared by network namespaces, the sysfs of a pod has no
# counters (is_full_dev in the kernel's drivers/infiniband/core/sysfs.c); netlink tells the driver's own there.
_COUNT = r"""
count() {
  w=$3 t=
  for f in "/sys/class/infiniband/$1/ports/$2/counters"/* "/sys/class/infiniband/$1/ports/$2/hw_counters"/*; do
    v=; { read -r v <"$f"; } 2>/dev/null
    case $v in ''|*[!0-9]*) continue;; esac
    g=${f%/*} t=1
    echo "counter|$w|${g##*/}/${f##*/}|$v"
  done
  [ -z "$t" ] || return 0
  set -- $(rdma statistic show link "$1/$2" 2>/dev/null)
  while [ $# -gt 3 ]; do echo "counter|$w|hw_counters/$3|$4"; shift 2; done
}
"""

# A program with a limit of $3 seconds in the foreground, between two looks at the counters of port $2 of device $1;
# no device is "-".
_BOUNDED = rf"""
{_COUNT}
c=$1 i=$2 l=$3; shift 3
[ "$c" = - ] || count "$c" "$i" before
{_PROGRAM}
"$r" "$@" </dev/null & p=$!
( n=0; while [ $n -lt $l ]; do sleep 1; kill -0 $p 2>/dev/null || exit; n=$((n+1)); done; kill -9 $p
) >/dev/null 2>&1 </dev/null &
wait $p
s=$?
[ "$c" = - ] || {{ echo; count "$c" "$i" after; }}
exit $s
"""

# A server side: $1 names its files, $2 is its limit in seconds, $3 the TCP port in hexadecimal as in /proc/net/tcp, or
# "-" for a program that listens on none; $4 and $5 are as in _BOUNDED. Answers once it listens.
_SERVE = rf"""
{_COUNT}
b=$1 l=$2 h=$3; [ "$4" = - ] || count "$4" "$5" before >"$b.counters"; shift 5
{_PROGRAM}
( "$r" "$@" >"$b.out" 2>&1 </dev/null & p=$!; echo $p >"$b.pid"; wait $p; echo $? >"$b.rc"
) >/dev/null 2>&1 </dev/null &
( n=0; while [ $n -lt $l ] && [ ! -e "$b.rc" ]; do sleep 1; n=$((n+1)); done
  [ -e "$b.rc" ] || {{ read -r p <"$b.pid" && kill -9 $p; }}
) >/dev/null 2>&1 </dev/null &
n=0
while [ $n -lt 150 ]; do
  p=; {{ read -r p <"$b.pid"; }} 2>/dev/null
  if [ -n "$p" ]; then
    [ -e "$b.rc" ] && {{ echo ended; exit 0; }}
    [ "$h" = - ] && {{ echo started; exit 0; }}
    for f in /proc/net/tcp /proc/net/tcp6; do
      {{ while read -r a c d e x; do
        case "$c $e" in *:"$h 0A") echo listening; exit 0;; esac
      done <$f; }} 2>/dev/null
    done
  fi
  sleep 0.2 2>/dev/null || sleep 1
  n=$((n+1))
done
echo silent
"""

# The end of a server side: up to $2 seconds to end by itself, then it is killed. Its status, its counters as in _SERVE
# and now, then its output. A status that is not written yet is none: its file is there a moment before.
_FINISH = rf"""
{_COUNT}
b=$1 n=0 k=ended
while [ ! -s "$b.rc" ] && [ $n -lt $2 ]; do sleep 1; n=$((n+1)); done
[ -s "$b.rc" ] || {{ k=killed; read -r p <"$b.pid" && kill -9 $p; }} 2>/dev/null
r=; [ $k = ended ] && read -r r <"$b.rc"
echo "$k ${{r:-none}}"
[ "$3" = - ] || {{ while read -r v; do echo "$v"; done <"$b.counters"; count "$3" "$4" after; }} 2>/dev/null
tail -c 65536 "$b.out" 2>/dev/null || cat "$b.out"
"""


class Load(NamedTuple):
    """What one bandwidth test sends: bytes a message, messages a queue pair, queue pairs."""

    size: int
    iterations: int
    queue_pairs: int


# 20 GB: half a second on 400 Gb/s, and four queue pairs fill it. Software moves about as many MB in its second.
HARDWARE_LOAD = Load(1024 * 1024, 5000, 4)
SOFTWARE_LOAD = Load(64 * 1024, 100, 1)


def probe(interface: str, *, gpu: bool = False) -> Argv:
    """Return the command that prints what ``endpoint.read_probe`` reads; with ``gpu`` also of GPU memory."""
    return ["sh", "-c", _PROBE, "probe", interface, "gpu" if gpu else "-"]


LATENCY_ITERATIONS = 1000
SOFTWARE_LATENCY_ITERATIONS = 100


class UsedPort(NamedTuple):
    """The port that one side of a test uses, whose counters are read around it; without GID index it is InfiniBand."""

    device: str
    number: int
    gid_index: int | None


def bounded(limit: int, argv: Sequence[str], counted: UsedPort | None = None) -> Argv:
    """Return the command that runs ``argv`` for at most ``limit`` seconds; 137 is the status of one that was ended."""
    return ["sh", "-c", _BOUNDED, "bounded", *_words(counted), str(limit), *argv]


def serve(tag: str, limit: int, port: int | None, argv: Sequence[str], counted: UsedPort | None = None) -> Argv:
    """Return the command that starts a server side; it prints listening, started (no ``port``), ended or silent."""
    listens = "-" if port is None else f"{port:04X}"
    return ["sh", "-c", _SERVE, "serve", f"{SCRATCH}/{tag}", str(limit), listens, *_words(counted), *argv]


def finish(tag: str, grace: int, counted: UsedPort | None = None) -> Argv:
    """Return the command that ends the server side of ``serve`` and prints how it ended and what it printed."""
    return ["sh", "-c", _FINISH, "finish", f"{SCRATCH}/{tag}", str(grace), *_words(counted)]


def _words(counted: UsedPort | None) -> Argv:
    return [counted.device, str(counted.number)] if counted else ["-", "-"]


def ping(interface: str, address: str, mtu: int) -> Argv:
    """Return the ping that fills a packet of ``mtu`` bytes and forbids cutting it."""
    headers = _IPV6_HEADERS if ":" in address else _IPV4_HEADERS
    size = str(max(mtu - headers, 0))
    return [
        "ping",
        "-n",
        "-c",
        str(PING_COUNT),
        "-i",
        "0.3",
        "-W",
        "2",
        "-M",
        "do",
        "-s",
        size,
        "-I",
        interface,
        address,
    ]


def rping_server(address: str, port: int) -> Argv:
    """Return the server side of rping."""
    return ["rping", "-s", "-a", address, "-p", str(port), "-C", str(RPING_COUNT), "-V", "-v"]


def rping_client(address: str, port: int) -> Argv:
    """Return the client side of rping, which compares every byte that comes back (-V)."""
    return ["rping", "-c", "-a", address, "-p", str(port), "-C", str(RPING_COUNT), "-V", "-v"]


def write_bandwidth(port: UsedPort, load: Load, *, tcp_port: int, server: str = "", memory: Sequence[str] = ()) -> Argv:
    """Return one side of ib_write_bw; with the address of a ``server`` it is the client side.

    Both sides need the same ``load`` and ``tcp_port``; the port and the options of ``memory`` are each side's own.
    """
    options = ["--report_gbits", "-s", str(load.size), "-n", str(load.iterations), "-q", str(load.queue_pairs)]
    return _perftest("ib_write_bw", port, [*options, *memory], tcp_port, server)


def write_latency(port: UsedPort, iterations: int, *, tcp_port: int, server: str = "") -> Argv:
    """Return one side of ib_write_lat, as ``write_bandwidth``; messages are the smallest it sends by default."""
    return _perftest("ib_write_lat", port, ["-n", str(iterations)], tcp_port, server)


def _perftest(program: str, port: UsedPort, options: Sequence[str], tcp_port: int, server: str) -> Argv:
    index = [] if port.gid_index is None else ["-x", str(port.gid_index)]
    argv = [program, "-d", port.device, "-i", str(port.number), *index, "-F", *options, "-p", str(tcp_port)]
    return [*argv, server] if server else argv
