# Copyright (c) 2026 The rdma.fabric contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files become documents with lines; a file that is broken or hostile is refused by line, fast, and never run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.rdma.fabric.plugins.module_utils._violations import InvalidInput, Violation
from ansible_collections.rdma.fabric.plugins.plugin_utils._documents.documents import MAX_BYTES, read_files, read_text
from ansible_collections.rdma.fabric.plugins.plugin_utils._hosts.documents import parse_document
from ansible_collections.rdma.fabric.tests.sweeps import examples

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def violations_of(text: str, name: str = "p.yaml") -> list[Violation]:
    with pytest.raises(InvalidInput) as caught:
        read_text(name, text)
    return caught.value.violations


def test_every_value_knows_its_line_in_every_document() -> None:
    first, second = read_text("p.yaml", "# head\na:\n  b: [1,\n      2]\n---\n---\nc: |\n  text\n  more\nd:\n  text\n")
    assert first.content == {"a": {"b": [1, 2]}}
    assert [first.line(path) for path in [(), ("a",), ("a", "b"), ("a", "b", 1), ("a", "x", "y")]] == [2, 2, 3, 4, 2]
    assert second.content == {"c": "text\nmore\n", "d": "text"}
    assert second.line(("d",)) == 11
    assert second.blocks == {("c",): 8}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("12:30", "12:30"),
        ("10:00:00:00:00:00:00:00", "10:00:00:00:00:00:00:00"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T10:00:00Z", "2024-01-01T10:00:00Z"),
        ("yes", True),
        ("off", False),
        ("11.0", 11.0),
        ("0x10", 16),
        ("010", 8),
        ("-3", -3),
        ("+5", 5),
        ("1_000", 1000),
        ("0", 0),
        ("15b3", "15b3"),
        ("~", None),
        ("=", "="),
        ('"5"', "5"),
        ("'2024-01-01'", "2024-01-01"),
        ("!!str 5", "5"),
        ("{{ lookup('pipe', 'id') }}", None),
    ],
)
def test_scalars_mean_what_they_mean_to_kubectl(written: str, value: Any) -> None:
    if written.startswith("{{"):
        # Unquoted, this is a mapping as key in YAML: it must be quoted, and then it stays text.
        assert violations_of(f"a: {written}\n")[0].line == 1
        written, value = f'"{written}"', written
    document = read_text("p.yaml", f"a: {written}\n")[0]
    assert document.content == {"a": value}
    assert type(document.content["a"]) is type(value)


def test_the_spelling_of_a_number_is_kept_for_the_report() -> None:
    document = read_text("p.yaml", "a: 24.10\nb: yes\nc: text\nd: '7'\n")[0]
    assert document.written == {("a",): "24.10", ("b",): "yes"}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "twice"),
        ("a:\n  b: 1\n  b: 1\n", 3, "twice"),
        ("a: 1\n\tb: 2\n", 2, "tab"),
        ("a: [1, 2\n", 2, "not closed"),
        ('a: "unterminated\n', 1, "not closed"),
        ("a: b: c\n", 1, "mapping values"),
        ("a: !!python/object:os.system x\n", 1, "tag"),
        ("a: !vault x\n", 1, "tag"),
        ("a: !unsafe x\n", 1, "tag"),
        ("a: !!binary aGk=\n", 1, "tag"),
        ("a: !!set {x}\n", 1, "tag"),
        ("? [a]\n: b\n", 1, "keys are text"),
        ("a:\n  b: {{ mtu }}\n", 2, "not filled in here"),
        ("a: .nan\n", 1, "JSON"),
        ("a: -.inf\n", 1, "JSON"),
        ("a: &x [*x]\n", 1, "itself"),
        ("a: *nowhere\n", 1, "alias"),
        ("a: b\n\0\n", 2, "binary"),
        ("\x1b[31mred\n", 1, "binary"),
        ("a:\n  <<: 5\n", 2, "mapping"),
    ],
)
def test_a_broken_file_is_refused_by_line(text: str, line: int, words: str) -> None:
    found = violations_of(text)
    assert found[0].line == line
    assert words in found[0].sentence()
    assert found[0].source == "p.yaml"


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("5", "the number 5"),
        ("1.5", "the number 1.5"),
        ("0x10", "the number 16"),
        ("!!int 5", "the number 5"),
        ("true", "true"),
        ("off", "false"),
        ("null", "nothing"),
        ("~", "nothing"),
    ],
)
@pytest.mark.parametrize("text", ["a:\n  {}: x\n  b: y\n", "a:\n- {}: {{c: d}}\n", "a:\n  ? {}\n  : x\n"])
def test_a_key_that_is_no_text_is_named_with_its_place(text: str, key: str, kind: str) -> None:
    (found,) = violations_of(text.format(key))
    assert (found.line, found.path.partition("[")[0]) == (2, "a")
    written = key.rpartition(" ")[2]
    assert found.problem == f"has the key {written}, which is {kind}; a key is text"
    assert found.hint == f'quote it: "{written}"'


def test_keys_of_different_types_are_each_named() -> None:
    assert [found.line for found in violations_of("a:\n  1: x\n  true: y\n  b: z\n  2: x\n  2: x\n")] == [2, 3, 5, 6]


@pytest.mark.parametrize("key", ["'5'", '"true"', "!!str 5", "2024-01-01", "12:30", "="])
def test_what_kubectl_takes_for_text_may_be_a_key(key: str) -> None:
    ((found,),) = [document.content for document in read_text("p.yaml", f"{key}: x\n")]
    assert found == key.replace("!!str ", "").strip("'\"")


@pytest.mark.parametrize(
    "digits", ["9" * 20, str(2**64), str(-(2**63) - 1), "0x1" + "0" * 16, "9" * 5000, "0" + "7" * 5000]
)
@pytest.mark.parametrize("text", ["a: {}\n", "a: [{}]\n", "- b: {}\n"])
def test_a_number_that_no_api_server_takes_is_named_with_its_line(text: str, digits: str) -> None:
    (found,) = violations_of(text.format(digits))
    assert found.line == 1
    assert found.hint in ("quote it, or give a smaller number", "quote it, or give a number")
    assert len(found.sentence()) < 200


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 0])
@pytest.mark.parametrize("source", ["p.yaml", "p.json"])
def test_a_number_of_64_bits_is_taken(source: str, number: int) -> None:
    assert read_text(source, f'{{"a": {number}}}')[0].content == {"a": number}


@pytest.mark.parametrize("text", ['{"a": 99999999999999999999}', '{"a": "\\ud800"}', '{"\\udc00": 1}'])
def test_json_has_no_larger_number_and_no_half_of_a_character(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"64 bits|half of a character"):
        read_text("p.json", text)


def test_every_repeated_key_is_named() -> None:
    assert [found.path for found in violations_of("a: 1\na: 2\nb: {c: 1, c: 2}\n")] == ["a", "b.c"]


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n---\n"])
def test_a_file_without_a_document_is_named(text: str) -> None:
    assert "no document" in violations_of(text)[0].problem


def test_aliases_and_merges_work_within_reason() -> None:
    document = read_text("p.yaml", "x: &x {a: 1, b: 2}\ny: *x\nz: {<<: *x, b: 3}\n")[0]
    assert document.content == {"x": {"a": 1, "b": 2}, "y": {"a": 1, "b": 2}, "z": {"a": 1, "b": 3}}


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


def merge_bomb(levels: int) -> str:
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [bomb(30), merge_bomb(30), "[" * 200_000, "a: " + "{a: " * 5000, "- " * 5000, "[" * 100 + "]" * 100],
    ids=["aliases", "merges", "unclosed", "mappings", "lists", "deep"],
)
def test_bombs_are_refused_at_once(text: str) -> None:
    started = time.process_time()
    assert violations_of(text)
    assert time.process_time() - started < 3


def test_a_big_file_is_refused_by_its_size_unread(tmp_path: Path) -> None:
    big = tmp_path / "big.yaml"
    with big.open("wb") as stream:
        stream.truncate(10 * MAX_BYTES)
    started = time.process_time()
    documents, violations = read_files(["big.yaml"], lambda name: tmp_path / name)
    assert time.process_time() - started < 3
    assert documents == []
    assert str(10 * MAX_BYTES) in violations[0].problem


@pytest.mark.slow
def test_the_biggest_file_is_read_in_time(tmp_path: Path) -> None:
    item = "- {name: NAME, value: 'text'}\n"
    (tmp_path / "p.yaml").write_text(item * (MAX_BYTES // len(item)))
    started = time.process_time()
    read_files(["p.yaml"], lambda name: tmp_path / name)
    assert time.process_time() - started < 10


def test_all_files_are_judged_at_once(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\x7fELF\0\xff\xfe")
    (tmp_path / "latin.yaml").write_bytes("a: 1\nb: ärger\n".encode("latin-1"))
    (tmp_path / "good.yaml").write_bytes("\ufeffa: 1\n".encode())
    names = ["binary.yaml", "latin.yaml", "missing.yaml", ".", "good.yaml"]
    documents, violations = read_files(names, lambda name: tmp_path / name)
    assert [document.content for document in documents] == [{"a": 1}]
    assert [(found.source, found.line) for found in violations] == [
        ("binary.yaml", 1),
        ("latin.yaml", 2),
        ("missing.yaml", None),
        (".", None),
    ]
    assert "binary" in violations[0].problem
    assert "UTF-8" in violations[1].problem


def test_a_file_that_is_missing_is_told_with_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _documents, (relative, absolute) = read_files(["p.yaml", "/nowhere/p.yaml"], Path)
    assert relative.hint == f"check the path; it was looked for in {tmp_path}"
    assert absolute.hint == "check the path"


def test_json_files_may_be_indented_with_tabs_and_know_their_lines() -> None:
    document = read_text("p.json", '{\n\t"a": {\n\t\t"b": "\\ud83d\\ude00"\n\t}\n}\n')[0]
    assert document.content == {"a": {"b": "\U0001f600"}}
    assert document.line(("a", "b")) == 3


@pytest.mark.parametrize(
    ("text", "line"), [('{"a": 1,\n "a": 2}', None), ('{\n"a": }', 2), ('{\n"a": 1', 2), ('{"a": NaN}', None)]
)
def test_broken_json_files_are_refused(text: str, line: int | None) -> None:
    found = violations_of(text, "p.json")
    assert len(found) == 1
    assert line is None or found[0].line == line


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    for name in ("p.yaml", "p.json"):
        try:
            read_text(name, text)
        except InvalidInput as invalid:
            assert invalid.violations


@settings(max_examples=examples(100))
@given(st.dictionaries(st.text(), JSON, min_size=1))
def test_what_is_written_as_yaml_is_read_back(value: dict[str, Any]) -> None:
    text = yaml.safe_dump(value, allow_unicode=False)
    try:
        (document,) = read_text("p.yaml", text)
    except InvalidInput as invalid:
        assert all("binary" in found.problem for found in invalid.violations)
        return
    assert document.content == value


@pytest.mark.parametrize("text", ['{"host": "\\ud800"}', '{"\\udfff": 1}', '["\\ude00\\ud83d"]'])
def test_a_document_of_a_run_holds_no_half_of_a_character(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="half of a character"):
        parse_document(path)
    path.write_text('{"host": "\\ud83d\\ude00"}')
    assert parse_document(path) == {"host": "\U0001f600"}


class TestPastedText:
    def test_blanks_of_web_pages_are_taken_for_blanks_between_tokens_and_kept_in_texts(self) -> None:
        pasted = 'a:\n\u00a0 b:\u00a01\n\u00a0\u00a0c: "x\u00a0y"\n\u200b  d: 10\u00a0GB\n'
        (document,) = read_text("p.yaml", pasted)
        assert document.content == {"a": {"b": 1, "c": "x\u00a0y", "d": "10\u00a0GB"}}
        (notice,) = document.notices
        assert (notice.line, "5 characters" in notice.problem) == (2, True)

    @pytest.mark.parametrize(
        ("line", "right"),
        [
            ("a: \u201cx\u201d", 'write: a: "x";'),
            ("a: \u2018x\u2019", "write: a: 'x';"),
            ("\u201ca\u201d: x", 'write: "a": x;'),
            ("\u2013 a: x", "write: - a: x;"),
            ("a: [\u2014nnodes=4]", "write: a: [-nnodes=4];"),
        ],
    )
    def test_what_word_processors_write_is_named_with_the_line_as_it_should_be(self, line: str, right: str) -> None:
        (found,) = violations_of(f"first: 1\n{line}\n")
        assert right in found.hint
        assert found.line == 2

    def test_typographic_quotes_that_are_quoted_are_meant(self) -> None:
        (document,) = read_text("p.yaml", "a: '\u201cx\u201d'\nb: he said \u201cx\u201d # \u201cyes\u201d\n")
        assert document.content == {"a": "\u201cx\u201d", "b": "he said \u201cx\u201d"}

    def test_lost_indentation_is_the_cause_and_not_what_follows_from_it(self) -> None:
        flat = "kind: Pod\nmetadata:\nname: a\nspec:\ncontainers:\n- name: b\nimage: c\nname: d\n"
        (found,) = violations_of(flat)
        assert found.line == 2
        assert found.problem == "has lost its indentation: nothing stands below metadata, spec"
        assert read_text("p.yaml", "kind: Pod\nspec:\ncontainers:\n- name: b\n")

    @pytest.mark.parametrize(
        ("text", "line", "step"),
        [
            ("cat <<EOF | kubectl apply -f -\nkind: Pod\nspec: {}\nEOF\n", 1, "take out this command and the line"),
            ("kind: Pod\nspec: {}\nEOF\n", 3, "take the line out: EOF"),
            ("$ cat pod.yaml\n\nkind: Pod\nspec: {}\n", 1, "take out this line of a shell: $ cat pod.yaml"),
            ("kind: Pod\nspec: {}\n[root@a ~]# \n", 3, "take out this line of a shell: [root@a ~]#"),
            ("```yaml\nkind: Pod\nspec: {}\n```\n", 1, "take out the fence of Markdown"),
            ("Copy\nCopied!\nkind: Pod\nspec: {}\n", 2, "take the line out: Copied!"),
            ("kind: Pod\nspec: {}\n----\nkind: Pod\n", 3, "write --- at the left edge"),
            ("kind: Pod\nspec: {}\nkind: Pod\n", 3, "put --- above it"),
            ("kind: Pod\nspec:\n  a: &quot;b&quot;\n", 3, 'write: a: "b"'),
            ("kind: Pod\nspec:\n  a: |\n{\n}\nb: c\n", 4, "indent it further than the field whose text it is"),
            ("kind: Pod\n<<<<<<< HEAD\nspec: {}\n", 2, "take the line out: <<<<<<< HEAD"),
            ('a: "b\nc: d\ne: "f"\n', 1, 'a quote is not closed: a: "b'),
            ("a: 'b\nc: d\n", 1, "a quote is not closed: a: 'b"),
            ('a: "b\u201d\nc: "d"\n', 1, 'write: a: "b"'),
            ('a: "C:\\path"\n', 1, "a backslash needs a second one"),
            ('a:\n  b: "c\n    d"\n e: f\n', 4, "the blanks in front of it"),
            ("a:\n  b:1500\n  c: d\n", 2, "put a blank after the colon: b:1500"),
            ("1 kind: Pod\n2 spec:\n3   a: b\n", 1, "paste it without"),
            ("> kind: Pod\n> spec:\n>   a: b\n", 1, "paste it without"),
            ("kind: Pod\nspec:\n  a b\n  c: d\n", 3, "write a field (NAME: VALUE), or take the line out: a b"),
        ],
    )
    def test_a_line_that_is_no_part_of_the_document_is_named_with_what_to_do(
        self, text: str, line: int, step: str
    ) -> None:
        found = violations_of(text)[0]
        assert (found.line, step in found.hint) == (line, True), found

    def test_several_objects_of_a_json_file_are_to_be_one_list(self) -> None:
        (found,) = violations_of('{"kind": "Pod"}\n{"kind": "Pod"}\n', "p.json")
        assert "items of one List" in found.hint

    def test_a_character_of_no_width_is_dropped_from_a_word_and_named_inside_quotes(self) -> None:
        (document,) = read_text("p.yaml", 'a: en\u00ads1\nb: "ens2\u200b"\n')
        assert document.content == {"a": "ens1", "b": "ens2\u200b"}
        assert [notice.line for notice in document.notices] == [1, 2]

    def test_a_line_that_is_missing_above_another_is_the_cause(self) -> None:
        (found,) = violations_of("kind: Pod\n  name: a\n")
        assert "below a line with a value (kind: Pod)" in found.hint
