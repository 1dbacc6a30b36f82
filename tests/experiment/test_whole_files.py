"""A file that is written anew is whole whenever it is read, also after an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest

from qioi.experiment.whole import replace_text, replacing


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_interrupts_a_writer_leaves_the_file_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    (file := tmp_path / "page.html").write_text("before")

    def write() -> None:
        with replacing(file) as new:
            new.write_text("aft")
            assert file.read_text() == "before"
            raise error

    with pytest.raises(error):
        write()
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("page.html", "before")]


def test_a_file_is_replaced_in_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    for text in ("first", "second: ü"):
        replace_text(file, text)
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("page.html", "second: ü".encode())]
