from __future__ import annotations

import gzip
import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from qioi.cli import main
from qioi.daemon.replay import Plan, ReplayError, name_peers, replay

LOGS = Path(__file__).parents[1] / "data" / "fabric-logs"
PEERS = sorted(LOGS.glob("*peer*.log"))
HEAD = "2026-11-21 03:{:02d}:{:06.3f} UTC 002b INFO [kvledger] commit -> "


def line(block: int, seconds: float, transactions: int = 10, channel: str = "c") -> str:
    text = HEAD.format(int(seconds // 60), seconds % 60)
    return (
        f"{text}[{channel}] Committed block [{block}] with {transactions} transaction(s) in 0ms "
        f"(state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[]\n"
    )


def run(*arguments: object) -> Any:
    result = CliRunner().invoke(main, ["replay", *map(str, arguments), "--output", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(main, ["replay", *map(str, arguments)])
    assert result.exit_code != 0
    assert not isinstance(result.exception, Exception) or isinstance(result.exception, SystemExit)
    return result.stderr.strip()


@pytest.mark.parametrize("log", PEERS, ids=lambda log: log.name)
def test_recorded_logs(log: Path) -> None:
    """Expectations by a plain search for the words, which nobody forged in these logs."""
    text = log.read_bytes()
    words = re.findall(rb"\[(\w+)\] Committed block \[(\d+)\] with (\d+) transaction", text)
    found = run(log)
    (name,) = {channel.decode() for channel, _, _ in words}
    channel = found["channels"][name]
    assert list(found["channels"]) == [name]
    assert channel["blocks"] == len(words) == len({block for _, block, _ in words})
    assert channel["transactions"] == sum(int(count) for _, _, count in words)
    assert (channel["first_block"], channel["last_block"]) == (0, max(int(block) for _, block, _ in words))
    assert channel["missing_blocks"] == 0
    assert channel["throughput"] == pytest.approx(
        (channel["transactions"] - int(words[0][2])) / (channel["last_time"] - channel["first_time"])
    )
    assert list(channel["peers"]) == [log.name.removesuffix(".log")]
    assert found["logs"][0]["lines"] == text.count(b"\n")
    assert found["logs"][0]["skipped"] == {}
    assert found["decisions"] == []
    readings = [point["throughput"].get(name) for point in found["timeline"]]
    assert max(value for value in readings if value is not None) > 0


def test_spans_of_the_recorded_logs() -> None:
    """Read off the first and the last commit line of each file by hand."""
    found = {log.name: run(log)["channels"] for log in PEERS}
    assert found["fabric-2.5.16-peer.log"]["mychannel"]["first_time"] == 1795231676.052
    assert found["fabric-2.5.16-peer-json.log"]["mychannel"]["first_time"] == 1795232554.5468967
    assert found["fabric-1.4.12-peer.log"]["ch1"]["first_time"] == 1795232226.862


def test_orderer_logs_show_leader_changes() -> None:
    found = run(*sorted(LOGS.glob("*orderer.log")))
    changes = [(one["orderer"], one["channel"], one["from"], one["to"]) for one in found["leader_changes"]]
    assert changes == [
        ("fabric-2.5.16-orderer", "mychannel", 0, 2),
        ("fabric-1.4.12-orderer", "sys", 0, 3),
        ("fabric-1.4.12-orderer", "ch1", 0, 1),
        ("fabric-3.1.5-orderer", "mychannel", 0, 2),
    ]
    assert found["channels"] == {}


@pytest.fixture
def two_peers(tmp_path: Path) -> tuple[Path, Path]:
    """Block n at n seconds; the second peer reports each half a second later, and some only in its rotated files."""
    first, second = tmp_path / "peer0.log", tmp_path / "peer1.log"
    first.write_text("".join(line(block, block) for block in range(60)))
    second.write_text("".join(line(block, block + 0.5) for block in range(40, 60)))
    (tmp_path / "peer1.log.1").write_text("".join(line(block, block + 0.5) for block in range(20, 40)))
    with gzip.open(tmp_path / "peer1.log.2.gz", "wt") as file:
        file.write("".join(line(block, block + 0.5) for block in range(20)))
    return first, second


def test_peers_are_merged_and_a_block_counts_once(two_peers: tuple[Path, Path], tmp_path: Path) -> None:
    found = run(*tmp_path.iterdir())
    channel = found["channels"]["c"]
    assert (channel["blocks"], channel["transactions"], channel["seconds"]) == (60, 600, 59)
    assert channel["throughput"] == pytest.approx(10)
    assert {name: peer["blocks"] for name, peer in channel["peers"].items()} == {"peer0": 60, "peer1": 60}
    rates = [point["throughput"]["c"] for point in found["timeline"]]
    assert rates[10:] == pytest.approx([10.0] * len(rates[10:]))
    assert rates[10:59] == [point["throughput"]["c"] for point in run(two_peers[0])["timeline"]][10:59]


def test_the_papers_example_is_decided_on_a_throughput_below_the_threshold(two_peers: tuple[Path, Path]) -> None:
    """A = 10, T = 12.5: 1024 + 1024 * 4 * 2.5 / 12.5, as with the paper's 400 of 500."""
    found = run(two_peers[0], "--threshold", 12.5)
    assert [(one["previous"], one["shares"], one["error"]) for one in found["decisions"]] == [
        (1024, 1843, pytest.approx(0.2))
    ]
    assert found["decisions"][0]["component"] == "peer0"
    assert found["timeline"][-1]["shares"] == {"peer0": 1843}
    assert run(two_peers[0], "--threshold", 9)["decisions"] == []


def test_a_config_decides(two_peers: tuple[Path, Path], tmp_path: Path) -> None:
    config = tmp_path / "qioi.yaml"
    config.write_text(
        "period: 0.5\n"
        "components:\n"
        "  - {name: org1-peer, role: peer, cgroup: lab/p0, log: peer0.log, channels: [c]}\n"
        "  - {name: orderer1, role: orderer, cgroup: lab/o1}\n"
        "  - {name: chaincode, role: chaincode, cgroup: lab/c}\n"
        "channels:\n  c: {threshold: 12.5, law: proportional, k: 2}\n"
    )
    found = run(two_peers[0], "-c", config)
    assert found["period"] == 0.5
    assert list(found["channels"]["c"]["peers"]) == ["org1-peer"]
    assert found["timeline"][-1]["shares"] == {"org1-peer": 1434, "orderer1": 1434}
    config.write_text("perod: 1\n")
    assert "perod" in refused(two_peers[0], "-c", config)


def test_rotated_parts_of_a_listed_log_are_its_components(two_peers: tuple[Path, Path], tmp_path: Path) -> None:
    lines = two_peers[0].read_text().splitlines(keepends=True)
    (tmp_path / "node.log.1").write_text("".join(lines[:30]))
    (tmp_path / "node.log").write_text("".join(lines[30:]))
    config = tmp_path / "qioi.yaml"
    config.write_text("components:\n  - {name: org1-peer, role: peer, cgroup: lab/p0, log: node.log, channels: [c]}\n"
                      "channels:\n  c: {}\n")  # fmt: skip
    found = run(tmp_path / "node.log.1", tmp_path / "node.log", "-c", config)
    assert {name: one["blocks"] for name, one in found["channels"]["c"]["peers"].items()} == {"org1-peer": 60}


def test_a_log_is_first_of_all_the_component_that_names_it(two_peers: tuple[Path, Path], tmp_path: Path) -> None:
    """Links are followed, and two logs that differ in a number alone are no parts of one."""
    for number, log in enumerate(two_peers):
        log.rename(tmp_path / f"node.{number}")
    (tmp_path / "today.log").symlink_to("node.0")
    config = tmp_path / "qioi.yaml"
    config.write_text("components:\n  - {name: a, role: peer, cgroup: lab/a, log: node.0, channels: [c]}\n"
                      "  - {name: b, role: peer, cgroup: lab/b, log: node.1, channels: [c]}\n"
                      "channels:\n  c: {}\n")  # fmt: skip
    found = run(tmp_path / "today.log", tmp_path / "node.1", "-c", config)
    assert {name: one["blocks"] for name, one in found["channels"]["c"]["peers"].items()} == {"a": 60, "b": 20}


def test_where_a_daemon_finds_its_components_the_logs_peers_are_some(
    two_peers: tuple[Path, Path], tmp_path: Path
) -> None:
    """As by README's own configuration, which lists nobody and names no channel."""
    config = tmp_path / "qioi.yaml"
    config.write_text("docker: {}\ndefaults: {law: proportional, threshold: 12.5, k: 4}\n")
    found = run(two_peers[0], "-c", config)
    assert found["timeline"][-1]["shares"] == {"peer0": 1843}
    assert found["channels"]["c"]["threshold"] == 12.5
    assert run(two_peers[0], "-c", config, "--threshold", 9)["decisions"] == []


def test_a_law_that_needs_what_no_log_tells_says_so(two_peers: tuple[Path, Path], tmp_path: Path) -> None:
    config = tmp_path / "qioi.yaml"
    config.write_text("docker: {}\n")
    found = run(two_peers[0], "-c", config)
    assert (found["decisions"], found["reasons"]) == ([], {"peer0": "no scheduling delay read: default share"})
    shown = CliRunner().invoke(main, ["replay", str(two_peers[0]), "-c", str(config)])
    assert "no scheduling delay read" in shown.stdout
    assert "By throughput alone: no log tells the waiting by which `adaptive` raises." in shown.stdout


def test_no_organisation_makes_a_channel_look_better_served_than_another_sees_it(tmp_path: Path) -> None:
    """As the daemon counts: by what two organisations agree on."""
    config = tmp_path / "qioi.yaml"
    config.write_text(
        "components:\n"
        "  - {name: p0, role: peer, cgroup: lab/p0, log: p0.log, organisation: a, channels: [c]}\n"
        "  - {name: p1, role: peer, cgroup: lab/p1, log: p1.log, organisation: b, channels: [c]}\n"
        "channels:\n  c: {threshold: 12.5, law: proportional, k: 2}\n"
    )
    (tmp_path / "p0.log").write_text("".join(line(block, block, 1000) for block in range(30)))
    (tmp_path / "p1.log").write_text("".join(line(block, block + 0.5) for block in range(30)))
    found = run(tmp_path / "p0.log", tmp_path / "p1.log", "-c", config)
    assert found["timeline"][20]["throughput"]["c"] == pytest.approx(10)
    assert found["decisions"]


def test_lines_are_skipped_with_a_reason(tmp_path: Path) -> None:
    log = tmp_path / "p.log"
    forged = line(99, 2, 10**6).replace("[kvledger]", "[endorser]")
    log.write_text(
        line(1, 1) + forged + line(2, 2) + line(2, 2) + line(10**30, 3) + "x" * (3 * 10**6) + "\n" + line(3, 3)[:-1]
    )
    found = run(log)
    assert found["logs"][0]["skipped"] == {"not-kvledger-info": 1, "number-out-of-range": 1, "line-too-long": 1}
    assert found["channels"]["c"]["blocks"] == 3
    assert found["channels"]["c"]["repeated_reports"] == 0
    assert found["channels"]["c"]["peers"]["p"]["repeated_reports"] == 1


def test_a_clock_that_is_set_back_and_a_pause_of_years(tmp_path: Path) -> None:
    log = tmp_path / "p.log"
    steps = [line(block, 3000 + block) for block in range(20)] + [line(block, block) for block in range(20, 40)]
    log.write_text("".join(steps) + line(40, 50).replace("2026", "2999"))
    found = run(log)
    assert found["logs"][0]["clock_steps"] == 1
    assert found["channels"]["c"]["missing_blocks"] == 0
    assert len(found["timeline"]) < 1000


def test_a_log_of_few_blocks_takes_little_memory_however_long_it_is(tmp_path: Path) -> None:
    """A log with few lines over a long time has many more periods than lines."""
    log = tmp_path / "p.log"
    log.write_text("".join(line(block, 59 * block) for block in range(60)))
    tracemalloc.start()
    try:
        found = replay([log], Plan(), threshold=0.5)
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(found.points) > 3400
    assert size / len(found.points) < 200
    assert 1024 == found.points[0].shares["p"] < found.points[-1].shares["p"]


def test_peers_that_disagree_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(line(1, 1) + line(2, 2))
    (tmp_path / "b.log").write_text(line(1, 1) + line(2, 2, 11))
    assert run(tmp_path / "a.log", tmp_path / "b.log")["channels"]["c"]["disagreements"] == 1


def test_text_output_names_what_was_found() -> None:
    result = CliRunner().invoke(main, ["replay", *map(str, PEERS[:2]), "--threshold", "50"])
    assert result.exit_code == 0
    for expected in ("ch1", "mychannel", "404", "882", "2,500", "below its 50 tps"):
        assert expected in result.output, expected


def test_a_log_shorter_than_the_window_has_no_curve(tmp_path: Path) -> None:
    (tmp_path / "p.log").write_text(line(1, 1) + line(2, 2))
    result = CliRunner().invoke(main, ["replay", str(tmp_path / "p.log")])
    assert result.exit_code == 0
    assert "c: shorter than the window of 6 s, no reading" in result.output


def test_bad_input_is_refused_in_one_line(tmp_path: Path) -> None:
    empty, noise, broken = tmp_path / "empty.log", tmp_path / "noise.log", tmp_path / "broken.gz"
    empty.touch()
    noise.write_bytes(bytes(range(256)) * 100)
    broken.write_bytes(gzip.compress(line(1, 1).encode() * 1000)[:-20])
    assert refused(tmp_path / "none.log") == f"Error: {tmp_path}/none.log: No such file or directory"
    assert refused(empty) == f"Error: {empty}: empty: accepted is a peer's log"
    assert refused(noise).startswith(f"Error: {noise}: no commit line in 101 lines: accepted are")
    assert refused(broken).startswith(f"Error: {broken}: broken gzip file: ")
    assert "\n" not in refused(broken)
    assert "0" in refused(noise, "--threshold", "0").splitlines()[-1]


def test_names_of_peers() -> None:
    container = "0123456789ab" + "c" * 52
    paths = [
        Path(name) for name in ("x/a.log", "x/a.log.1", "x/a.log.2.gz", "x/b.log", "y/b.log", f"d/{container}-json.log")
    ]
    assert list(name_peers(paths).values()) == ["a", "a", "a", "x/b", "y/b", "0123456789ab"]


def test_peers_whose_folders_have_one_name_are_told_apart_by_those_above() -> None:
    names = ("org1/logs/peer0.log", "org2/logs/peer0.log", "org2/../org1/logs/peer0.log.1", "peer1.log")
    found = name_peers([Path(name) for name in names])
    assert list(found.values()) == ["org1/logs/peer0", "org2/logs/peer0", "org1/logs/peer0", "peer1"]
    within = name_peers([Path("/logs/peer0.log"), Path("/srv/logs/peer0.log")])
    assert list(within.values()) == ["logs/peer0", "srv/logs/peer0"]


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.floats(0, 3599), st.integers(0, 1000), st.sampled_from("cd")), max_size=30
    )
)
def test_sums_are_those_of_the_lines(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[int, float, int, str]]
) -> None:
    log = tmp_path_factory.mktemp("replay") / "p.log"
    log.write_text("".join(line(*one) for one in lines) or "nothing\n")
    if not lines:
        with pytest.raises(ReplayError):
            replay([log], Plan())
        return
    first: dict[tuple[str, int], int] = {}
    for block, _, transactions, channel in lines:
        first.setdefault((channel, block), transactions)
    found = replay([log], Plan())
    for name, span in found.channels.items():
        assert span.blocks == sum(channel == name for channel, _ in first)
        assert span.transactions == sum(count for (channel, _), count in first.items() if channel == name)
    assert set(found.channels) == {channel for channel, _ in first}
