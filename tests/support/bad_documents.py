"""Files that are no YAML, or none that anybody means: each is refused in one line."""

from __future__ import annotations

import os


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def written_out_without_end() -> str:
    """Eight aliases of eight aliases and so on: 8 to the power of 8 values in 300 bytes."""
    return "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8 if n else ['x'] * 8)}]\n" for n in range(8))


#: What each file holds, and what is said of it after the file's name.
BAD: dict[str, tuple[str | bytes, str]] = {
    "empty int": ('period: !!int ""', 'line 1: "" is no int: accepted is YAML'),
    "no int": ("!!int x: 1", 'line 1: "x" is no int'),
    "list as int": ("period: !!int [1]", "line 1: expected a scalar node, but found sequence"),
    "empty float": ('\nperiod: !!float ""', 'line 2: "" is no float'),
    "no float": ("period: !!float x", 'line 1: "x" is no float'),
    "no bool": ("period: !!bool x", 'line 1: "x" is no bool'),
    "no timestamp": ("period: !!timestamp x", 'line 1: "x" is no timestamp'),
    "no day": ("period: 2026-02-30", 'line 1: "2026-02-30" is no timestamp'),
    "no hour": ("period: 2026-01-01T99:00:00", 'line 1: "2026-01-01T99:00:00" is no timestamp'),
    "no set": ("period: !!set [1]", "line 1: expected a mapping node, but found sequence"),
    "no binary": ("period: !!binary x", "line 1: failed to decode base64 data"),
    "list as key": ("? [1]\n: 2", "line 1: found unhashable key"),
    "mapping as key": ("{{a: 1}: 2}", "line 1: found unhashable key"),
    "merged with no mapping": ("a: &a 1\nb: {<<: *a}", 'line 1: "1" is no mapping to merge'),
    "merged with itself": ("&a {<<: *a}", "line 1: an alias stands within what it names"),
    "list in itself": ("components: &a [*a]", "line 1: an alias stands within what it names"),
    "mapping in itself": ("x: 1\nchannels: &a {red: *a}", "line 2: an alias stands within what it names"),
    "too many aliases": (written_out_without_end(), "line 6: more than 100 levels, or 100,000 values with aliases"),
    "deep": (f"components: {nested(120)}", "line 1: more than 100 levels, or 100,000 values with aliases"),
    # PyYAML runs out of frames below 500 levels; what it has read ahead until then costs the square of the depth.
    "very deep": (f"components: {nested(700)}", "nested too deeply: accepted are 100 levels"),
    "many digits": ("period: " + "9" * 5000, 'line 1: "9999'),
    "some digits": ("channels: {red: {threshold: " + "9" * 400 + "}}", 'line 1: "9999'),
    "many hex digits": ("period: 0x" + "f" * 9000, 'line 1: "0xffff'),
    "65 bits": ("period: 9223372036854775808", 'line 1: "9223372036854775808" is beyond 64 bits'),
    "zero byte": ("period: \0", "unacceptable character #x0000"),
    "no UTF-8": (b"period: \xff", "unacceptable character #x00ff"),
    "no UTF-16": (b"\xff\xfe\x00", "unacceptable character #x0000"),
    "half a character": ('socket: "\\ud800"', 'line 1: "\\ud800" holds half of a character'),
    "half a key": ('"\\ud800": 1', 'line 1: "\\ud800" holds half of a character'),
    "no character": ('socket: "\\U99999999"', "Python int too large"),
    "no alias": ("period: *x", "line 1: found undefined alias 'x'"),
    "no tag": ("period: !x 1", "line 1: could not determine a constructor for the tag '!x'"),
    "of a language": ("a: !!python/object:os.system x", "line 1: could not determine a constructor"),
    "control character": ('a: *"\\e[2J"', "line 1: "),
    "twice": ("period: 1\nperiod: 2\n", "line 2: key 'period' stands twice"),
    "twice where it is merged": ("a: &a {x: 1, x: 2}\nb: {<<: *a, x: 3}", "line 1: key 'x' stands twice"),
    "merged twice": ("a: &a {x: 1}\nb: {<<: *a, <<: *a}", "line 2: key '<<' stands twice"),
    "unfinished": ("period: [1", "line 1"),
    "tab": ("metrics:\n\tport: 1", "line 2: found character '\\t' that cannot start any token"),
    "two documents": ("period: 1.0\n---\nperiod: 2.0\n", "line 2: but found another document"),
    "value of nothing": ("period: =", "line 1: could not determine a constructor"),
}


def as_bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else os.fsencode(content)
