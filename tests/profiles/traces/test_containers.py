"""Byte-order marks, zip archives, separators of tables, and where in a file a fault is."""

import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest
from profiles.traces.synthetic import aot_dump, execution_trace, profile_alone

import slackopt as so
from slackopt.profiles.traces import source

BOM = b"\xef\xbb\xbf"
PROFILE = json.dumps(profile_alone()).encode()
TRACE = json.dumps(execution_trace(steps=1)[0]).encode()
SHORT = "activation,size_bytes,forward_ns,backward_ns,inputs\na,1000,10,20,\nb,500,12,22,a\n"


def zipped(*members: tuple[str, bytes]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return target.getvalue()


def read(tmp_path: Path, content: bytes, **options: object) -> so.Graph:
    path = tmp_path / "file"
    path.write_bytes(content)
    return so.profiles.read_trace(path, **options)  # type: ignore[arg-type]


def refusal(tmp_path: Path, content: bytes, **options: object) -> str:
    with pytest.raises(so.InputError) as caught:
        read(tmp_path, content, **options)
    return str(caught.value)


@pytest.mark.parametrize("content", [PROFILE, SHORT.encode()], ids=["kineto", "csv"])
def test_marks_and_archives_change_nothing(tmp_path: Path, content: bytes) -> None:
    plain = read(tmp_path, content)
    for packed in (
        BOM + content,
        gzip.compress(BOM + content),
        zipped(("run/trace.json", content)),
        zipped(("__MACOSX/run/._trace.json", b"x"), ("run/", b""), ("run/t.json", BOM + content)),
    ):
        assert read(tmp_path, packed) == plain


def test_marked_dumps_are_read(tmp_path: Path) -> None:
    dump = BOM + json.dumps(aot_dump()).encode()
    assert read(tmp_path, dump, accelerator="a100").ops
    assert read(tmp_path, BOM + TRACE, accelerator="a100").ops
    assert "is UTF-16 text; save it as UTF-8" in refusal(tmp_path, TRACE.decode().encode("utf-16"))


def test_archives_that_are_refused(tmp_path: Path) -> None:
    assert "the zip archive holds no file" in refusal(tmp_path, zipped())
    assert "holds no file" in refusal(tmp_path, zipped(("folder/", b"")))
    two = zipped(("a.json", PROFILE), ("b.json", PROFILE))
    assert "the zip archive holds more than one file; unpack it" in refusal(tmp_path, two)
    whole = zipped(("a.json", PROFILE))
    assert "damaged zip archive" in refusal(tmp_path, whole[:-30])
    broken = bytearray(whole)
    broken[60:200] = bytes(140)
    assert "damaged" in refusal(tmp_path, bytes(broken))
    # Found by the fuzzer: the archive's own error quotes both names, however long.
    renamed = zipped(("a" * 3000, PROFILE)).replace(b"a" * 3000, b"\n" * 3000, 1)
    assert len(refusal(tmp_path, renamed)) < 500
    assert "\n" not in refusal(tmp_path, renamed)
    locked = bytearray(whole)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        locked[locked.index(signature) + flags] |= 1
    assert "the zip archive can't be read" in refusal(tmp_path, bytes(locked))


def test_a_zip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_TRACE_BYTES", 300_000)
    bomb = zipped(("a.json", PROFILE + b" " * 300_000))
    assert "larger than 300000 bytes uncompressed; refused" in refusal(tmp_path, bomb)


@pytest.mark.parametrize("sign", [";", "\t"], ids=["semicolons", "tabs"])
def test_tables_of_spreadsheets(tmp_path: Path, sign: str) -> None:
    plain = read(tmp_path, SHORT.encode())
    assert read(tmp_path, BOM + SHORT.replace(",", sign).replace("\n", "\r\n").encode()) == plain
    named = '# name: "mine"\n' + SHORT.replace(",", sign)
    assert read(tmp_path, named.encode()).name == "mine"
    lists = SHORT.replace("a,1000", "x,7,1,2,\na,1000") + "c,1,1,1,{}\n"
    several = read(tmp_path, lists.format("a;b").encode())
    assert several.ops[3].inputs == ("a", "b")
    quoted = lists.replace(",", sign).format('"a;b"').encode()
    assert read(tmp_path, quoted) == several
    text = refusal(tmp_path, SHORT.replace(",", sign).replace("500", "5.5").encode())
    assert "line 3: column 'size_bytes' must be a whole number, found '5.5'" in text


LONG = json.dumps({"traceEvents": [{"ph": "M"}], "padding": ["word"] * 60_000}).encode()


@pytest.mark.parametrize("prefix", [b"", BOM], ids=["plain", "marked"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9999])
def test_the_byte_is_where_the_fault_is(tmp_path: Path, share: float, prefix: bytes) -> None:
    at = LONG.index(b'"word"', int(share * 400_000)) + 6
    broken = prefix + LONG[:at] + b"!" + LONG[at:]
    for packed in (broken, gzip.compress(broken), zipped(("a", broken))):
        text = refusal(tmp_path, packed)
        assert f"(near byte {len(prefix) + at})" in text, text


def test_the_byte_where_a_file_ends_or_is_no_text(tmp_path: Path) -> None:
    cut = LONG[:300_001]
    text = refusal(tmp_path, cut)
    assert "it ends too early; copy or record it again (near byte 300001)" in text
    table = SHORT + "".join(f"x{i},1,1,1,\n" for i in range(20_000))
    for at in (10, 100, 200_003):
        content = bytearray(table.encode())
        content[at] = 0xFF
        text = refusal(tmp_path, bytes(content)) if at != 10 else ""
        assert at == 10 or f"not UTF-8 text (near byte {at})" in text
    deep = b'{"nodes": ' + b"[" * 30_000
    assert "nested more than 10000 deep (near byte 10009)" in refusal(tmp_path, deep)
