# shellcheck shell=bash
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs on the host, in mount and process namespaces of its own: `fill-disk.sh BUNDLE IMAGE QEMU_ROOT TARGET SIZE` writes
# TARGET/disk.img, which makes Kubernetes nodes of the guests. The guests' own containerd, taken out of their image,
# unpacks the container images into its store here, in seconds: emulated guests would need a minute each. It runs with
# QEMU's root as its libraries, which is of the same Debian release.

set -euo pipefail

bundle=$1 image=$2 qemu_root=$3 target=$4 size=$5
libraries=${qemu_root}/usr/lib/x86_64-linux-gnu
root=${target}/root
programs=${target}/programs

# Sockets and state go where the programs look for them; /run of the host is not touched.
mount -t tmpfs tmpfs /run
mkdir -p "$root/containerd" "$programs" /run/containerd
for name in containerd ctr; do
    debugfs -R "dump -p /usr/bin/$name $programs/$name" "$image"
done

# No function: one in the background is a shell of its own, and ending that would leave the program running.
run=("$libraries/ld-linux-x86-64.so.2" --library-path "$libraries")

cat >/run/config.toml <<TOML
version = 2
root = "$root/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri", "io.containerd.internal.v1.opt"]
TOML
"${run[@]}" "$programs/containerd" --config /run/config.toml &
server=$!
for _ in $(seq 100); do
    if "${run[@]}" "$programs/ctr" version >/dev/null 2>&1; then
        break
    fi
    sleep 0.1
done
for archive in "$bundle"/images/*.tar; do
    "${run[@]}" "$programs/ctr" --namespace k8s.io images import "$archive"
done
"${run[@]}" "$programs/ctr" oci spec >"$root/oci-spec.json"
# Its store has to be at rest before it is copied.
kill "$server"
wait "$server" || true
rm -r "$programs"
cp -r "$bundle/bin" "$bundle/cni" "$root/"
mke2fs -q -F -t ext4 -O ^has_journal,^metadata_csum -L rdma-node -d "$root" "$target/disk.img" "$size"
rm -r "$root"
