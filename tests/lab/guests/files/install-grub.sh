# shellcheck shell=bash
# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# Runs on the host, in mount and process namespaces of its own: `install-grub.sh ROOT TARGET UUID DISK` does what
# grub-install(8) and update-grub(8) do on a booted host, for a root that is to become the file system UUID on DISK. GRUB
# itself becomes TARGET/grub.img, which firmware starts as if it were a kernel: the disk needs no partition table.

set -euo pipefail

root=$1 target=$2 uuid=$3 disk=$4
platform=/usr/lib/grub/i386-pc
modules=(
    biosdisk ext2 search search_fs_uuid normal configfile linux
    serial terminal echo test loadenv gzio part_gpt part_msdos
)

mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=0755 tmpfs "$root/run"

mkdir -p "$root/boot/grub/i386-pc"
cp "$root$platform"/*.mod "$root$platform"/*.lst "$root/boot/grub/i386-pc/"
cat >"$root/run/core.cfg" <<CFG
search --no-floppy --fs-uuid --set=root $uuid
set prefix=(\$root)/boot/grub
CFG
chroot "$root" grub-mkimage --format=i386-pc --config=/run/core.cfg --prefix=/boot/grub --output=/run/core.img \
    "${modules[@]}"
cat "$root$platform/lnxboot.img" "$root/run/core.img" >"$target/grub.img"

# What grub-probe(8) will say once the root is a disk: now it would look at the disk that the root is built on.
cat >"$root/run/grub-probe" <<PROBE
#!/bin/sh
case "\$*" in
    *--target=device*) echo "$disk" ;;
    *--target=fs_uuid*) echo "$uuid" ;;
    *--target=fs*) echo ext2 ;;
esac
PROBE
chmod 0755 "$root/run/grub-probe"
mount --bind "$root/run/grub-probe" "$root/usr/sbin/grub-probe"
chroot "$root" update-grub
chroot "$root" grub-script-check /boot/grub/grub.cfg
