# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recording is read like the host it stands for; whatever is no recording is refused with a next step."""

from __future__ import annotations

import json
import tracemalloc
import zlib
from typing import Any

import pytest

from ansible_collections.rdma.fabric.plugins.module_utils._host.machine.access import READ_LIMIT
from ansible_collections.rdma.fabric.plugins.module_utils._host.recording.recorded import (
    FORMAT,
    SIZE_LIMIT,
    BadRecording,
    RecordedHost,
    describe_entries,
    dump_recording,
    load_recording,
)
from ansible_collections.rdma.fabric.tests.unit._host.test_access import refusal

DEVICE = "/sys/devices/pci0000:15/0000:15:01.0/0000:18:00.0"


def document(**sections: Any) -> dict[str, Any]:
    return {"format": FORMAT, "hostname": "node", "recorded_by": "test", "stand_in": None, **sections}


@pytest.fixture
def host() -> RecordedHost:
    return RecordedHost(
        document(
            files={
                "/sys/bus/pci/devices/0000:18:00.0/vendor": "0x15b3\n",
                f"{DEVICE}/net/eth0/mtu": "1500\n",
                "/proc/cmdline": "quiet\n",
            },
            binary={"/efi/SecureBoot": "BgAAAAE="},
            links={
                "/sys/bus/pci/devices/0000:18:00.0": "../../../devices/pci0000:15/0000:15:01.0/0000:18:00.0",
                "/sys/class/net/eth0": "../../devices/pci0000:15/0000:15:01.0/0000:18:00.0/net/eth0",
                f"{DEVICE}/net/eth0/device": "../../../0000:18:00.0",
                "/dangling": "nowhere",
                "/circle": "circle",
            },
            dirs=["/sys/class/infiniband"],
            errors={"/sys/class/net/eth0/carrier": "EINVAL", "/secret": "EACCES", "/gone": "ENOENT"},
            commands={"ip -json address show": {"rc": 0, "stdout": "[]", "stderr": ""}},
        )
    )


def test_links_lead_where_they_led(host: RecordedHost) -> None:
    assert host.read("/sys/class/net/eth0/mtu") == "1500\n"
    assert host.read("/sys/class/net/eth0/device/net/eth0/mtu") == "1500\n"
    assert host.read(f"{DEVICE}/vendor") == "0x15b3\n", "an entry may be named by a path through a link"
    assert host.realpath("/sys/bus/pci/devices/0000:18:00.0") == DEVICE
    assert host.link("/sys/class/net/eth0") == "../../devices/pci0000:15/0000:15:01.0/0000:18:00.0/net/eth0"
    assert host.link("/sys/class/net/eth0/device") == "../../../0000:18:00.0"


def test_directories_are_implied_by_what_is_below(host: RecordedHost) -> None:
    assert host.list("/sys/class/net") == ["eth0"]
    assert host.list("/sys/bus/pci/devices") == ["0000:18:00.0"]
    assert host.list("/sys/class/net/eth0/device") == ["net", "vendor"]
    assert host.list("/sys/class/net/eth0") == ["carrier", "device", "mtu"]
    assert host.list("/sys/class/infiniband") == []
    assert "sys" in host.list("/")


def test_failures_come_back(host: RecordedHost) -> None:
    assert refusal(host.read, "/sys/class/net/eth0/carrier") == "EINVAL"
    assert refusal(host.read, "/secret") == "EACCES"
    assert refusal(host.read_bytes, "/secret") == "EACCES"
    assert refusal(host.list, "/secret") == "EACCES"
    assert refusal(host.read, "/none") == "ENOENT"
    assert refusal(host.read, "/dangling") == "ENOENT"
    assert refusal(host.read, "/circle") == "ELOOP"
    assert refusal(host.read, "/sys") == "EISDIR"
    assert refusal(host.list, "/proc/cmdline") == "ENOTDIR"
    assert refusal(host.list, "/none") == "ENOENT"
    assert refusal(host.link, "/proc/cmdline") == "EINVAL"
    assert refusal(host.link, "/none") == "ENOENT"
    assert refusal(host.realpath, "/dangling") == "ENOENT"


def test_existence(host: RecordedHost) -> None:
    paths = ["/proc/cmdline", "/sys/class/infiniband", "/sys/class/net/eth0", "/secret", "/efi/SecureBoot", "/"]
    assert all(host.exists(path) for path in paths)
    assert not any(host.exists(path) for path in ["/none", "/dangling", "/circle", "/gone", "/proc/cmdline/more"])


def test_bytes_and_programs(host: RecordedHost) -> None:
    assert host.read_bytes("/efi/SecureBoot") == b"\x06\0\0\0\x01"
    assert host.run(["ip", "-json", "address", "show"], 1).stdout == "[]"
    assert refusal(host.run, ["rm", "-rf", "/"], 1) == "ENODATA"


def test_a_large_file_is_cut() -> None:
    host = RecordedHost(document(files={"/large": "x" * (3 * READ_LIMIT)}))
    assert len(host.read("/large")) == READ_LIMIT
    assert len(host.read_bytes("/large")) == READ_LIMIT


def test_paths_of_any_depth_are_taken() -> None:
    deep = "/a" * 2000
    assert RecordedHost(document(files={deep: "x"})).list("/a/a") == ["a"]


@pytest.mark.parametrize("compress", [True, False])
def test_what_is_dumped_is_loaded(compress: bool) -> None:
    kept = document(files={"/file": "{{ 7 * 7 }}\n"})
    data = dump_recording(kept, compress)
    assert load_recording(data) == kept
    assert dump_recording(load_recording(data), compress) == data


def test_a_compressed_recording_holds_no_time_and_no_name() -> None:
    header = dump_recording(document(), compress=True)[:10]
    assert header[3] == 0, "no name of a file"
    assert header[4:8] == b"\0\0\0\0", "no time"


WHOLE = dump_recording(document(files={"/file": "text" * 500}), compress=True)
BROKEN = {
    "empty": (b"", "is empty"),
    "truncated gzip": (WHOLE[:-20], "ends too early"),
    "damaged gzip": (WHOLE[:20] + b"\xff\xff\xff" + WHOLE[23:], "gzip data"),
    "binary": (b"\x7fELF\x02\x01\xff\xfe", "binary data"),
    "truncated JSON": (b'{"format": "rdma.fabric/recorded-host/v1", "fi', "not JSON, or not all of it"),
    "YAML": (b"- hosts: all\n", "not JSON"),
    "a list": (b"[]", "this is a list"),
    "another JSON": (b'{"kind": "Pod"}', "not a recorded host"),
    "a number as format": (b'{"format": 1}', "not a recorded host"),
    "a later format": (b'{"format": "rdma.fabric/recorded-host/v2"}', "not the one this release reads"),
    "deep nesting": (b"[" * 100000, "nested too deeply"),
    "files as list": (json.dumps(document(files=[])).encode(), "files is a list, not an object"),
    "a number as file": (json.dumps(document(files={"/mtu": 1500})).encode(), "files['/mtu'] is a number"),
    "a relative path": (json.dumps(document(links={"eth0": "x"})).encode(), "'eth0', which is not an absolute path"),
    "an endless path": (json.dumps(document(files={"/a" * 9000: ""})).encode(), "not an absolute path"),
    "an endless link": (json.dumps(document(links={"/a": "b/" * 9000})).encode(), "longer than a path can be"),
    "bad base64": (json.dumps(document(binary={"/x": "%%"})).encode(), "binary['/x'] is not base64"),
    "an error that is none": (json.dumps(document(errors={"/x": "oops"})).encode(), "no name of an errno"),
    "a command without output": (json.dumps(document(commands={"ip": {"rc": 0}})).encode(), "lacks rc"),
    "a flag as status": (
        json.dumps(document(commands={"ip": {"rc": True, "stdout": "", "stderr": ""}})).encode(),
        "lacks rc",
    ),
    "dirs as text": (json.dumps(document(dirs="/sys")).encode(), "dirs is not a list"),
    "a number as hostname": (json.dumps(document(hostname=7)).encode(), "hostname is a number, not text"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_recording_is_refused_with_a_next_step(case: str) -> None:
    data, problem = BROKEN[case]
    with pytest.raises(BadRecording) as refused:
        load_recording(data)
    assert problem in str(refused.value)
    assert "record the host again with rdma.fabric.rdma_record" in str(refused.value)


def test_several_flaws_are_told_at_once() -> None:
    with pytest.raises(BadRecording) as refused:
        load_recording(json.dumps(document(files=[], errors={"/x": "oops"}, dirs={})).encode())
    assert all(word in str(refused.value) for word in ("files", "errors", "dirs"))


def test_a_bomb_is_not_inflated() -> None:
    packer = zlib.compressobj(1, wbits=zlib.MAX_WBITS | 16)
    mebibyte = b" " * (1 << 20)
    bomb = b"".join(packer.compress(mebibyte) for _turn in range(8 * SIZE_LIMIT >> 20)) + packer.flush()
    tracemalloc.start()
    try:
        with pytest.raises(BadRecording, match="more than 32 MiB"):
            load_recording(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * SIZE_LIMIT
    with pytest.raises(BadRecording, match="more than 32 MiB"):
        load_recording(b" " * (SIZE_LIMIT + 1))


def test_differences_are_told_entry_by_entry() -> None:
    before = document(files={"/a": "1", "/b": "2"}, dirs=["/d"])
    after = document(files={"/a": "1", "/b": "3", "/c": "4"})
    assert describe_entries(before, after) == (
        'dirs /d: \nfiles /b: "2"\n',
        'files /b: "3"\nfiles /c: "4"\n',
    )
