"""Figures are compared within one run, and the page shows what was measured."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from waiting import PATIENCE

from qioi.lab.figures import (
    ArmFigures,
    InterfererFigures,
    LoadFigures,
    RoleFigures,
    SeriesFigures,
    due,
    ratios,
)
from qioi.lab.flush_probe import FlushFigures
from qioi.lab.machine import Machine, Quiet
from qioi.lab.report import Page, headline, markdown, noise_notes, write_report
from qioi.lab.result_table import build_rows, milliseconds, percent, times
from qioi.model import Role

HOST = Machine("6.18", "A processor", 2, 24.0, 1, 0.1, "3.11")


def arm(
    name: str, *, tps: float, p95: float, delay: float, sysbench: int = 0, events: float = 0.0, cores: float = 0.0
) -> ArmFigures:
    wave = tuple((float(second), tps + 10 * (second % 3)) for second in range(-5, 20))
    return ArmFigures(
        name=name,
        title=f"<{name}>",
        load=LoadFigures(500.0, tps, p95 / 2, p95 / 3, p95, 2 * p95, 3 * p95, int(tps * 20), 1),
        roles={role: RoleFigures(delay, 0.1, 0.2, 1000.0, 0.3) for role in (Role.PEER, Role.ORDERER, Role.CHAINCODE)},
        client_cores=0.1,
        daemon_cores=0.01,
        interferer=InterfererFigures(sysbench, events, cores),
        flush=FlushFigures(200, 0.2, 0.9, 4.0),
        quiet=Quiet(20.0, 0.0, 1.0 + cores, 0.3),
        series=SeriesFigures(
            throughput=wave,
            p95=tuple((at, p95) for at, _ in wave),
            interferer=tuple((at, events) for at, _ in wave) if sysbench else (),
            shares=tuple((role.value, tuple((at, 1024.0) for at, _ in wave)) for role in (Role.PEER, Role.ORDERER)),
            delay=(("peer", tuple((at, delay) for at, _ in wave)),),
        ),
    )


@pytest.fixture
def arms() -> list[ArmFigures]:
    return [
        arm("alone", tps=500, p95=5, delay=0.02),
        arm("together", tps=250, p95=500, delay=2.0, sysbench=8, events=7000, cores=1.4),
        arm("protected", tps=498, p95=6, delay=0.05, sysbench=8, events=4900, cores=0.98),
    ]


def test_due_is_what_ledger_and_client_leave_free(arms: list[ArmFigures]) -> None:
    assert due(arms[0], 2, 5000.0) == pytest.approx((2 - 0.9 - 0.1) * 5000)
    greedy = arm("alone", tps=1, p95=1, delay=1)
    assert due(greedy, 0, 5000.0) == 0


def test_ratios_are_against_alone(arms: list[ArmFigures]) -> None:
    found = ratios(arms[1], arms[0], 2)
    assert found.throughput == 0.5
    assert found.p95 == 100
    assert found.delay[Role.PEER] == pytest.approx(100)
    assert found.interferer_due == pytest.approx(7000 / 5000)
    assert ratios(arms[2], arms[0], 2).interferer_due == pytest.approx(0.98)
    assert ratios(arms[0], arms[0], 2).interferer_due is None


def test_a_base_of_nothing_does_not_divide_by_zero(arms: list[ArmFigures]) -> None:
    nothing = arm("alone", tps=0, p95=0, delay=0)
    assert ratios(arms[1], nothing, 2).throughput == float("inf")
    assert ratios(nothing, nothing, 2).throughput == 1


def test_every_row_has_a_cell_per_arm(arms: list[ArmFigures]) -> None:
    rows = build_rows(arms, 2)
    assert all(len(row.entries) == 3 for row in rows if not row.heading)
    assert {"peers", "orderers", "chaincode"} <= {row.label for row in rows}
    throughput = next(row for row in rows if row.label == "throughput, tps")
    assert [(one.ratio, one.verdict) for one in throughput.entries] == [
        ("", ""),
        ("50 %", "bad"),
        ("100 %", "good"),
    ]
    assert markdown(arms, 2).count("\n") == len(rows) + 2


def test_a_window_in_which_nothing_was_flushed_shows_no_time_of_a_flush() -> None:
    idle = arm("alone", tps=1, p95=1, delay=1)
    object.__setattr__(idle, "flush", FlushFigures(0, 0.0, 0.0, 0.0))
    rows = build_rows([idle, arm("together", tps=1, p95=1, delay=1)], 2)
    heading = next(number for number, row in enumerate(rows) if row.label.startswith("Disk flush"))
    shown = [[entry.value for entry in row.entries] for row in rows[heading + 1 : heading + 3]]
    assert shown == [["-", "0.20"], ["-", "0.90"]]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "0.012 ms"), (1.234, "1.23 ms"), (56.78, "56.8 ms"), (1234, "1,234 ms"), (0.1234, "0.12 ms")],
)
def test_times_are_spelt_with_about_three_digits(value: float, text: str) -> None:
    assert milliseconds(value) == text


def test_ratios_are_spelt_for_people() -> None:
    assert (times(1.234), times(5.67), times(123.4), percent(0.987)) == ("1.23x", "5.7x", "123x", "99 %")
    assert (times(0.985), times(0.0263), times(0.00631)) == ("0.98x", "0.026x", "0.0063x")


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0.0001, "0.0001x"), (0.00006, "0.0001x"), (0.00004, "under 0.0001x"), (1e-9, "under 0.0001x"), (0.0, "0x")],
)
def test_a_ratio_below_its_last_digit_is_not_said_to_be_nothing(ratio: float, text: str) -> None:
    assert times(ratio) == text


def test_noise_from_outside_is_said(arms: list[ArmFigures]) -> None:
    assert noise_notes(arms[:1], 2) == []
    loud = arm("alone", tps=1, p95=1, delay=1, cores=0.0)
    object.__setattr__(loud, "quiet", Quiet(20.0, 0.2, 1.9, None))
    notes = noise_notes([loud], 2)
    assert "hypervisor took 20 %" in notes[0]
    assert "the kernel's threads, this measurement and processes outside the lab used" in notes[1]


class Reader(HTMLParser):
    """Notes tags that do not pair up, and counts pictures."""

    VOID = frozenset({"meta", "br", "img", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.pictures = 0
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.pictures += tag == "svg"
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def page(files: tuple[str, ...] = ("result.json",)) -> Page:
    return Page("A <title> & more", "lead", (("Load", "500 tps"),), "law: adaptive\n", files)


def test_the_page_is_whole_and_self_contained(arms: list[ArmFigures], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, page(), arms, HOST)
    text = path.read_text()
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert reader.pictures == 5
    assert "A <title> & more" in reader.text
    assert "<alone>" in reader.text
    assert "src=" not in text
    assert "law: adaptive" in reader.text
    assert [card.value for card in headline(arms, 2)] == ["100 %", "6.00 ms", "12.0 ms", "98 %"]


def test_a_page_with_one_arm_has_no_headline(arms: list[ArmFigures], tmp_path: Path) -> None:
    write_report(tmp_path / "report.html", page(), arms[:1], HOST)
    assert "with QiOi" not in (tmp_path / "report.html").read_text()


@pytest.mark.host
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_draws_every_picture(arms: list[ArmFigures], tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    write_report(path, page(), arms, HOST)
    text = path.read_text().replace(
        "</body>",
        "<script>document.title = [...document.querySelectorAll('figure svg')]"
        ".filter(e => e.getBoundingClientRect().height > 50).length + ' drawn'</script></body>",
    )
    path.write_text(text)
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        "--dump-dom",
        path.as_uri(),
    ]
    dump = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    assert "<title>5 drawn</title>" in dump
