# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes secrets out of objects, documents of runs, and logs, for support bundles, differences and messages. Pure.

What names a secret is what recordings of hosts go by (``_host/facts/masks``). A secret that neither its name nor its
form tells stays.

Logs are as long as they are, and may be hostile: the time that a pattern takes grows only as the text does. Where a
search begins anew, it reads no character that an earlier one has read, or a bounded number of them; so a name is
looked for without its value, which is read for secrets alone.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from typing import Any, Callable

from ansible_collections.rdma.fabric.plugins.module_utils._host.facts.masks import MASK, looks_secret

from .programs import in_line, patterns
from .said import LOGIN

# Words that hold one of those of secrets and say nothing of one: names of references, of API groups, of results.
_HARMLESS = re.compile(
    r"pass(?:ed|ing|es|ive)\b|pass_?through|bypass|author(?!iz)|(?:authorization|authentication)\.k8s\.io"
    r"|secret_?names?|secret_?refs?|secret_?key_?refs?|pull_?secrets?|ufm_?secret|guard_?token|service_?account_?token$"
    r"|config-?map-?key|iscsi|netroot|hash",
    re.IGNORECASE,
)
# Further names, as an underscore or a capital begins no word for a pattern of words.
_KEYS = re.compile(
    r"(?:access|account|activation|client|encryption|license|private|security|shared|signing|ssh|storage|tls|wep)[_.-]?key"
    r"|mka[_.-]?cak|(?:bind|root|user)[_.-]?pw\b|slurm_jwt|docker_?(?:cfg|config_?json)|amz-signature",
    re.IGNORECASE,
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,40}-----"
    r".*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,40}-----|\Z)",
    re.DOTALL,
)
# What PEM begins with, in Base64: kubeconfigs and Secrets hold it so.
_ENCODED_PEM = re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/_=-]+")
# Tokens that their form tells: JWT (RFC 7519; RFC 7516 has five parts), and prefixes that GitHub, GitLab, NVIDIA NGC,
# Slack, Hugging Face, Docker, Grafana, Vault, PyPI, Google and AWS give theirs so that scanners find them.
_TOKENS = re.compile(
    r"\beyJ(?:\w|-(?!eyJ)){5,}\.[\w-]{5,}(?:\.[\w-]*){0,3}"
    r"|\b(?:gh[opsur]_|github_pat_|glpat-|nvapi-|xox[abeprs]-|hf_|dckr_pat_|glsa_|hv[bs]\.|pypi-|ya29\.)[\w.-]{10,}"
    r"|\bAIza[\w-]{30,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|(?<=hooks\.slack\.com/services/)[\w/]+|(?<=[?&]sig=)[\w%+/=-]+"
)
# Keys and hashes that theirs does: hashes of passwords (crypt(5), GRUB's), keys of NVMe (DH-HMAC-CHAP, TLS) and Ceph.
_HASHES = re.compile(
    r"\$(?:1|2[abxy]|5|6|7|y|gy)\$[./\w$=,-]{20,}|\bgrub\.pbkdf2\.[\w.]+"
    r"|\b(?:DHHC-1|NVMeTLSkey-1):\d\d:[\w+/=]+|\bAQ[A-Za-z0-9+/]{36}=="
)
# Proxies are also written without a scheme, and with characters in the password that a URL may not hold.
_CREDENTIALS_IN_PROXY = re.compile(
    r"(?P<head>proxy\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?:\w{1,8}://)?)[^\s\"'<>\\,@]{1,256}(?=@)", re.IGNORECASE
)
_AUTHORIZATION = re.compile(
    r"(?P<head>\bauthorization\\*[\"']?\s*[:=]\s*\[?\\*[\"']?)"
    r"(?:(?:Digest|AWS4-[\w-]+)[ \t][^\r\n]+|(?:(?:Basic|Bearer|Negotiate|Token)\s+)?[^\s\"'\]\\]+)",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<head>\bBearer\s+)[\w.~+/=-]{6,}", re.IGNORECASE)
_COOKIE = re.compile(
    r"(?P<head>\b(?:Set-)?Cookie\\*[\"']?[ \t]*:[ \t]*\[?\\*[\"']?)[^\s\"'\\][^\"'\\\r\n\]]*", re.IGNORECASE
)
# Settings without a sign between name and value: of FRR and routers, netrc, SNMP, ifupdown, LDAP, IPsec, xfrm. After
# the bare word only a value that ends the text, the line or what is quoted, as prose speaks of passwords, too.
_DIRECTIVE = re.compile(
    r"(?P<head>(?:\b(?:(?:neighbor|login)[ \t]+\S+[ \t]+password(?:[ \t]+\d)?"
    r"|message-digest-key[ \t]+\d+[ \t]+md5|key-string"
    r"|(?:area|domain)-password[ \t]+(?:clear|md5)|(?:tacacs|radius)-server[ \t]+key|r[ow]community6?"
    r"|snmp-server[ \t]+community|com2sec6?[ \t]+\S+[ \t]+\S+|wpa-(?:psk|passphrase)|bindpw)"
    r"|\bwg\b.{0,80}private-key)[ \t]+)"
    r"[^\s\"'\\]+"
    r"|(?P<user>\bcreateUser[ \t]+)[^\r\n]+"
    r"|(?P<ipsec>:[ \t]*(?:PSK|EAP|XAUTH|RSA[ \t]+\S+)[ \t]+)(?:\"[^\"\r\n]*\"|0[sx]\S+)"
    r"|(?P<xfrm>\b(?:auth|auth-trunc|enc|aead)[ \t]+\S+[ \t]+)0x\w{8,}"
    r"|(?P<bare>\b(?:password|passwd|passphrase)[ \t]+(?:\d[ \t]+)?)[^\s\"'\\:=,.]+(?=[\"'\\]|[ \t]*$)",
    re.IGNORECASE | re.MULTILINE,
)
_ELEMENT = re.compile(r"(?P<head><(?P<name>[\w.-]+)>)(?P<value>[^<>\s][^<>]*)(?=</(?P=name)>)")
# A password of several words, as YAML takes one without quotes.
_LINE = re.compile(
    r"^(?P<head>[ \t]*(?:- )?(?P<name>[\w.-]*pass(?:word|wd|phrase)?):[ \t]+)(?P<value>[^\s\"'\[{|>&*!#][^\r\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_MOST_QUOTED_LINES = 16
_MANIFEST_OF_SECRET = re.compile(r"^[ \t]*(?:- )?kind:[ \t]*[\"']?Secret[\"']?[ \t]*$", re.MULTILINE)
_DOCUMENTS = re.compile(r"^(?=---)", re.MULTILINE)
_DATA_OF_SECRET = re.compile(
    r"^(?P<indent>[ \t]*)(?P<head>(?:data|stringData):)[ \t]*\n(?:(?P=indent)[ \t]+.*(?:\n|\Z)|[ \t]*\n)+", re.MULTILINE
)
# name: value, name=value, "name": "value", also with quotes that are escaped within other text.
_ASSIGNED = re.compile(
    r"(?<![\w.$/-])(?:(?<=(?P<quote>[\"']))|)(?P<name>[\w.$/-]+)(?(quote)(?:\\*(?P=quote))?)"
    r"[ \t]*(?::=|=>|:(?!:)|=)[ \t]*"
)
# A value without its closing quote was cut off, and goes to the end of the line, unless one soon ends with the quote.
_QUOTED = (
    r"(?P<around>\\*[\"']).*?(?<!\\)(?P=around)(?:(?P=around).*?(?<!\\)(?P=around))*"
    r"|(?P<cut>\\*[\"'])[^\r\n]*"
)
_REST_OF_QUOTE = {
    quote: re.compile(rf"(?:\r?\n[^\"'\r\n]*){{1,{_MOST_QUOTED_LINES}}}{quote}(?=[ \t]*[,;)}}\]]*[ \t]*\r?(?:\n|\Z))")
    for quote in "\"'"
}
# Of one without quotes only the beginning. A list that does not end in its line goes to the end of the line.
_VALUE = re.compile(
    rf"{_QUOTED}|(?P<list>\[(?:(?:\"(?:[^\"\\\r\n]|\\.)*\"|'[^'\r\n]*'|[^\[\]\"'\r\n])+\]|[^\]\s][^\r\n]*))"
    r"|(?P<number>\d+|\*{8})(?=[,}\]\s&]|\Z)|\\*[^\s\"'\\]"
)
_HEAD_OF_BLOCK = re.compile(
    r"^(?P<indent>[ \t]*)(?P<head>(?:- )?[\"']?(?P<name>[\w.$/-]+)[\"']?:[ \t]*)[|>][-+0-9]*[ \t]*\n", re.MULTILINE
)
_BLOCK = re.compile(rf"{_HEAD_OF_BLOCK.pattern}(?P<value>(?:(?P=indent)[ \t]+.*(?:\n|\Z)|[ \t]*\n)+)", re.MULTILINE)
# A list over several lines, of YAML or of JSON, and its items that are no mappings.
_HEAD_OF_ITEMS = re.compile(
    r"^[ \t]*(?:- )?[\"']?(?P<name>[\w.$/-]+)[\"']?:[ \t]*(?:\[[ \t]*\r?\n|\r?\n(?=[ \t]*- ))", re.MULTILINE
)
_ITEM = re.compile(
    r"(?P<head>[ \t]*(?:-[ \t]+)?(?P<quote>[\"']?))(?![\]\[{}#|>-]|[\w.$/-]+[\"']?:(?:[ \t]|\r?$))"
    r"[^\s,\"'][^\r\n]*?(?P<tail>(?P=quote),?[ \t]*\r?(?:\n|\Z))",
    re.MULTILINE,
)
_ENTRY = re.compile(
    r"(?P<head>\bname:[ \t]*[\"']?(?P<name>[\w.-]+)[\"']?[ \t]*\r?\n[ \t]*value:[ \t]*)(?P<value>[^\r\n]+)"
)
# Also as two items of a list.
_FLAG = re.compile(r"(?<![\w.-])(?P<name>--?[A-Za-z][\w.-]*)(?:[ \t]+|\\*[\"'],[ \t]*(?=\\*[\"']))(?=[^\s-])")
_VALUE_OF_FLAG = re.compile(rf"{_QUOTED}|(?P<number>\d+)(?=[,}}\]\s&]|\Z)|\S")
_OF_PROGRAMS = patterns(rf"{_QUOTED}|\S+")
_LINE_OF_PROGRAM = in_line()
# What chpasswd(8) is given: user:password, or user:hash, in the lines of its input or of cloud-init's list.
_CHPASSWD = re.compile(
    r"^(?P<indent>[ \t]*)chpasswd:[ \t]*\n(?:(?P=indent)[ \t]+.*(?:\n|\Z)|[ \t]*\n)+"
    r"|^[^\r\n]*\bchpasswd\b(?:(?=[^\r\n]*<<)[^\r\n]*\n(?:[A-Za-z_][\w.-]*:[^\s:][^\r\n]*(?:\n|\Z))*|[^\r\n]*)",
    re.MULTILINE,
)
_USER = re.compile(
    r"(?P<head>(?<![\w:/.-])[A-Za-z_][\w.-]*:)(?=[^\s:/\"'|])[^\"'|\r\n]+?(?=[ \t]*(?:[\"'|\r\n]|\\n|\Z))"
)
_QUOTES = re.compile(r"(?<!\\)\\*[\"']")
# What ends a value without quotes: a blank, or the end of a string, of JSON or the like, that it stands in.
_END_OF_WORD = re.compile(r"\s|(?<!\\)\\*[\"'](?=[,:;})\]\s]|\Z)")
_NO_VALUES = ("true", "false", "null", "none", "nil", MASK)
# A variable of an environment may hold anything, whatever its name.
_ENVIRONMENT = re.compile(r"(?:^|[a-z_])env(?:ironment)?(?:_?vars)?$", re.IGNORECASE)
_ENVIRONMENT_OF_HELM = re.compile(r"(?P<head>\benv\w*\[\d+\]\.value=)[^\s,\"'\\]+", re.IGNORECASE)
# Names, addresses and versions, of which data of a fleet is full: no secret, unless a word or a prefix is among them.
_WORD = re.compile(r"[\w.:/%+-]{0,64}")
_OF_WORDS = re.compile(rf"{_KEYS.pattern}|cookie|LS0tLS1CRUdJTi|{_TOKENS.pattern}|{_HASHES.pattern}", re.IGNORECASE)
_NUMBER = re.compile(r"[\d.]{0,20}")


def names_secret(name: str) -> bool:
    """Tell whether what has this name may be a secret: a field, a variable, an argument."""
    rest = _HARMLESS.sub("", name.strip("-"))
    # By itself it is one half of a label, a taint or a reference.
    return rest.lower() != "key" and (looks_secret(rest) or _KEYS.search(rest) is not None)


def scrubbed_prose(text: str) -> str:
    """Return text that speaks of names, as messages do, with a mask in place of what its form alone tells."""
    text = _PRIVATE_KEY.sub(MASK, text)
    text = _ENCODED_PEM.sub(_without_encoded_key, text)
    for form in (_TOKENS, _HASHES, LOGIN):
        text = form.sub(MASK, text)
    return _CREDENTIALS_IN_PROXY.sub(rf"\g<head>{MASK}", text)


def scrubbed_text(text: str) -> str:
    """Return text of any kind with a mask in the place of each secret."""
    text = scrubbed_prose(text)
    for form in (_AUTHORIZATION, _BEARER, _COOKIE, _ENVIRONMENT_OF_HELM):
        text = form.sub(rf"\g<head>{MASK}", text)
    text = _CHPASSWD.sub(lambda found: _USER.sub(rf"\g<head>{MASK}", found.group()), text)
    text = _without_options_of_programs(text)
    text = _DIRECTIVE.sub(lambda found: f"{found[found.lastgroup or 'head']}{MASK}", text)
    text = "".join(map(_without_secret_data, _DOCUMENTS.split(text)))
    text = _without_items(_without_blocks(text))
    for pattern in (_LINE, _ENTRY):
        text = _masking(pattern, text)
    text = _masking(_ASSIGNED, text, _VALUE)
    text = _masking(_FLAG, text, _VALUE_OF_FLAG)
    return _masking(_ELEMENT, text)


def scrubbed(value: Any, name: str = "") -> Any:
    """Return plain data with a mask in the place of each secret. ``name`` is that of the field that holds it."""
    if isinstance(value, dict):
        return _scrubbed_fields(value)
    if isinstance(value, list):
        return _scrubbed_items(value, name)
    if not isinstance(value, str) or not value:
        return value
    return MASK if names_secret(name) and value.lower() not in _NO_VALUES else _scrubbed_string(value)


def _scrubbed_fields(fields: dict[str, Any]) -> dict[str, Any]:
    held = ("data", "stringData") if fields.get("kind") == "Secret" else ()
    # An environment variable, or what is written like one.
    named = str(fields.get("name", "")) if "value" in fields else ""
    return {
        key: _all_masked(item)
        if key in held
        else _scrubbed_environment(item)
        if _ENVIRONMENT.search(str(key))
        else scrubbed(item, named if key == "value" and named else str(key))
        for key, item in fields.items()
    }


def _all_masked(value: Any) -> Any:
    return dict.fromkeys(value, MASK) if isinstance(value, dict) else value and MASK


def _scrubbed_environment(value: Any) -> Any:
    """Return an environment as containers have it, as a mapping, or as a list of ``NAME=value``."""
    if isinstance(value, dict):
        return {name: _scrubbed_variable(str(name), item) for name, item in value.items()}
    if not isinstance(value, list):
        return scrubbed(value)
    found: list[Any] = []
    for item in value:
        if isinstance(item, str):
            name, sign, text = item.partition("=")
            found.append(f"{name}{sign}{_scrubbed_variable(name, text)}")
        elif isinstance(item, dict) and "value" in item:
            found.append({**scrubbed(item), "value": _scrubbed_variable(str(item.get("name", "")), item["value"])})
        else:
            found.append(scrubbed(item))
    return found


def _scrubbed_variable(name: str, value: Any) -> Any:
    shown = scrubbed(value, name)
    harmless = not isinstance(shown, str) or shown.lower() in _NO_VALUES or _NUMBER.fullmatch(shown)
    return shown if harmless else MASK


def _scrubbed_items(items: list[Any], name: str) -> list[Any]:
    """Return a list; the value of an argument may be the item after it."""
    found, before = [], ""
    for item in items:
        argument = isinstance(item, str) and item.startswith("-")
        found.append(scrubbed(item, before if before and not argument else name))
        before = item if argument and "=" not in item and names_secret(item) else ""
    return found


def _scrubbed_string(text: str) -> str:
    """Return a string, which may be JSON itself: configurations of CNI plugins and annotations are."""
    if _WORD.fullmatch(text) and not (looks_secret(text) or _OF_WORDS.search(text)):
        return text
    if text.lstrip()[:1] in ("{", "["):
        try:
            inner = json.loads(text)
        except (ValueError, RecursionError):
            return scrubbed_text(text)
        clean = scrubbed(inner)
        return text if clean == inner else json.dumps(clean, sort_keys=True)
    return scrubbed_text(text)


class _Strings:
    """Which quotes are open at a place of a text. Places are asked for in ascending order, so all is read once."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._seen: Counter[str] = Counter()

    def end_of_word(self, start: int) -> int:
        """Return where the word from ``start`` ends: at a blank, or with the string of one line that it stands in."""
        line = self._text.rfind("\n", self._at, start) + 1
        if line:
            self._seen.clear()
        self._seen.update(_QUOTES.findall(self._text, max(line, self._at), start))
        self._at = start
        ends = _END_OF_WORD.finditer(self._text, start)
        return next((e.start() for e in ends if e.group().isspace() or self._seen[e.group()] % 2), len(self._text))


def _masking(pattern: re.Pattern[str], text: str, values: re.Pattern[str] | None = None) -> str:
    """Replace the value of each match whose name may be that of a secret.

    The value is a group of the match, or what ``values`` finds after it. The search goes on within what is no secret:
    ``msg="password=..."`` holds another name.
    """
    parts: list[str] = []
    strings = _Strings(text)
    start = at = 0
    while True:
        found = pattern.search(text, at)
        if found is None:
            return "".join([*parts, text[start:]])
        at = max(found.end() if values else found.start("value"), found.start() + 1)
        if not names_secret(found["name"]):
            continue
        first, last, quote = _place_of_value(found, values, strings)
        value = text[first:last].strip("\\\"'")
        if first == last or value.lower().rstrip(",}]") in _NO_VALUES:
            continue
        parts += [text[start:first], f"{quote}{MASK}{quote}"]
        start = at = last


def _place_of_value(found: re.Match[str], values: re.Pattern[str] | None, strings: _Strings) -> tuple[int, int, str]:
    """Return where the value of a match begins and ends, and what quotes it. Without a value both are the same."""
    if values is None:
        around = _QUOTES.match(found.string, *found.span("value"))
        return (*found.span("value"), around.group() if around else "")
    value = values.match(found.string, found.end())
    if value is None:
        return found.end(), found.end(), ""
    quote = value["around"] or value["cut"] or ""
    rest = _REST_OF_QUOTE[quote].match(found.string, value.end()) if value["cut"] in _REST_OF_QUOTE else None
    if quote or value["number"] or value.groupdict().get("list"):
        return value.start(), (rest or value).end(), quote
    return value.start(), strings.end_of_word(value.start()), quote


def _without_options_of_programs(text: str) -> str:
    """Look for each program only in the lines that may have one: few do, and the programs are many."""
    lines = text.split("\n")
    found = [number for number, line in enumerate(lines) if _LINE_OF_PROGRAM.search(line)]
    some = "\n".join(lines[number] for number in found)
    for pattern in _OF_PROGRAMS:
        some = _without_options_of(pattern, some)
    for number, line in zip(found, some.split("\n")):
        lines[number] = line
    return "\n".join(lines)


def _without_options_of(pattern: re.Pattern[str], text: str) -> str:
    strings = _Strings(text)

    def masked(found: re.Match[str]) -> str:
        end = found.end() if found["value"][0] in "\\\"'" else strings.end_of_word(found.start("value"))
        return f"{found['head']}{MASK}{text[end : found.end()]}"

    return pattern.sub(masked, text)


def _without_blocks(text: str) -> str:
    parts: list[str] = []
    start = at = 0
    while True:
        found = _HEAD_OF_BLOCK.search(text, at)
        if found is None:
            return "".join([*parts, text[start:]])
        at = found.end()
        block = _BLOCK.match(text, found.start()) if names_secret(found["name"]) else None
        if block is not None:
            parts += [text[start : block.start()], f"{block['indent']}{block['head']}{MASK}\n"]
            start = at = block.end()


def _without_items(text: str) -> str:
    parts: list[str] = []
    start = at = 0
    while True:
        found = _HEAD_OF_ITEMS.search(text, at)
        if found is None:
            return "".join([*parts, text[start:]])
        at = found.end()
        item = _ITEM.match(text, at) if names_secret(found["name"]) else None
        while item is not None:
            parts += [text[start : item.end("head")], MASK]
            start, at = item.start("tail"), item.end()
            item = _ITEM.match(text, at)


def _without_secret_data(document: str) -> str:
    if not _MANIFEST_OF_SECRET.search(document):
        return document
    return _DATA_OF_SECRET.sub(rf"\g<indent>\g<head> {MASK}\n", document)


def _without_encoded_key(found: re.Match[str]) -> str:
    text = found.group()
    return MASK if b"PRIVATE KEY" in _decoded(text) else text


def _decoded(text: str) -> bytes:
    """Return what Base64 of either alphabet stands for, as far as whole groups go."""
    whole = text.replace("-", "+").replace("_", "/").rstrip("=")
    decode: Callable[[str], bytes] = base64.b64decode
    try:
        return decode(whole[: len(whole) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""
