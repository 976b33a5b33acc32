# shellcheck shell=bash
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs in a guest of the lab, from its configuration disk. `identity` copies the disk's files over the root file system;
# `ready` puts soft RDMA on every card, makes a Kubernetes node of the guest where its configuration asks for one, and
# reports to the console, which the lab on the host reads.

set -eEuo pipefail # E: what fails in a function is told as well

INTERFACE_SECONDS=60

say() {
    echo "rdma-lab: $*" >/dev/console
}

trap 'say "failed: ${BASH_COMMAND} (line ${LINENO})"' ERR

take_identity() { # once: from then on the files are the guest's, a reboot changes none of them
    if [[ ! -e /etc/rdma-lab/rails ]]; then
        say "taking the identity of this guest"
        cp -r --no-preserve=ownership /run/rdma-lab/etc/. /etc/
        chmod 0600 /etc/ssh/ssh_host_*_key
    fi
}

interface_of() { # MAC address -> name of the interface; fails when none appears in time
    local deadline=$((SECONDS + INTERFACE_SECONDS)) file
    while ((SECONDS < deadline)); do
        for file in /sys/class/net/*/address; do
            # One that udev renames meanwhile is not there any more; the next look finds it.
            if [[ $(cat "$file" 2>/dev/null || true) == "$1" ]]; then
                basename "$(dirname "$file")"
                return
            fi
        done
        sleep 0.2
    done
    say "failed: no interface has the address $1 after ${INTERFACE_SECONDS} s"
    return 1
}

add_soft_rdma() {
    local rail=0 mac name
    modprobe -a rdma_rxe ib_uverbs # what components need beside these, a run loads
    while read -r mac; do
        # A driver's name for an interface does not last: udev gives it another one.
        interface_of "$mac" >/dev/null
        udevadm settle --timeout="$INTERFACE_SECONDS"
        name=$(interface_of "$mac")
        rdma link add "rxe${rail}" type rxe netdev "$name"
        rail=$((rail + 1))
    done </etc/rdma-lab/rails
}

join_cluster() {
    say "preparing containerd and the pods' network"
    mkdir -p /run/rdma-node /opt/cni/bin /var/lib/containerd /var/lib/kubelet/plugins_registry
    mount LABEL=rdma-node /run/rdma-node
    mount --bind /run/rdma-node/containerd /var/lib/containerd
    cp /run/rdma-node/cni/* /opt/cni/bin/
    install -m 0755 /run/rdma-lab/rxe-netns /opt/cni/bin/
    sysctl -q -w net.ipv4.ip_forward=1
    nft -f /etc/rdma-lab/service.nft
    python3 -I -S /run/rdma-lab/rdma_overlay.py /run/rdma-node/oci-spec.json /etc/containerd/base-spec.json
    say "starting containerd and kubelet"
    systemctl start containerd.service kubelet.service
}

case $1 in
identity) take_identity ;;
ready)
    say "putting soft RDMA on the cards"
    add_soft_rdma
    if [[ -e /etc/rdma-lab/node ]]; then
        join_cluster
    fi
    say "ready"
    ;;
*)
    say "failed: guest.sh knows identity and ready, not $1"
    exit 2
    ;;
esac
