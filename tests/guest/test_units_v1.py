"""Units, and pods that are units, on cgroup v1: what is in inside/, in a container; and QiOi's own unit beside them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml
from systemd_machine import Machine, UnavailableError, root_file_system
from waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.host, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    try:
        machine = Machine(root_file_system(), tmp_path_factory.mktemp("machine"), rooted=True)
    except UnavailableError as error:
        pytest.skip(f"no systemd machine here: {error}")
    yield machine
    machine.close()


@pytest.mark.parametrize("tests", ["test_units.py", "test_unit_kinds.py", "test_kubepods.py"])
def test_everything_passes_on_cgroup_v1(machine: Machine, tests: str) -> None:
    inside = "/opt/qioi/source/tests/guest/inside"
    done = machine.run(
        "env", "PYTHONPATH=/opt/qioi/source:/opt/qioi/site", "PYTHONDONTWRITEBYTECODE=1", "QIOI_IN_GUEST=1",
        "python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{inside}/{tests}", check=False, patience=560,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert [line for line in skipped if "no group of cgroup v1 idle" not in line] == []


def test_qiois_own_unit_has_the_rights_for_it(machine: Machine) -> None:
    """As deploy/systemd/qioi.service has it: few capabilities, nearly everything read-only."""
    line = (
        "$(date -u '+%F %T.000') UTC 002b INFO [kvledger] commit -> [red] Committed block [$i] with 1 transaction(s) "
        "in 1ms (state_validation=0ms block_and_pvtdata_commit=0ms state_commit=0ms) commitHash=[ab]"
    )
    writer = f'while :; do i=$((i+1)); echo "{line}"; sleep 0.1; done'
    (machine.folder / "writer.sh").write_text(writer)
    (machine.etc / "qioi.yaml").write_text(
        yaml.safe_dump(
            {
                "period": 0.2,
                "systemd": {"units": [{"unit": "writer.service", "role": "peer"}]},
                "defaults": {"law": "proportional", "threshold": 1000},
            }
        )
    )
    # nspawn shows its machine a boot id of its own, by a mount over the kernel's; this setting would hide that mount,
    # and `journalctl --follow` would wait for entries of another boot.
    drop_in = "printf '[Service]\\nProtectKernelTunables=no\\n' >/run/systemd/system/qioi.service.d/test.conf"
    machine.run("mkdir", "-p", "/run/systemd/system/qioi.service.d")
    machine.run("sh", "-c", f"{drop_in}; systemctl daemon-reload")
    machine.run("systemd-run", "--unit=writer", "-p", "CPUShares=700", "/bin/sh", "/srv/qioi/writer.sh")

    def values() -> dict[str, tuple[str, str]]:
        """Share and record of the unit and of its slice: it depends on the host's other work which is raised."""
        found = {}
        for unit, group in (("writer.service", "system.slice/writer.service"), ("system.slice", "system.slice")):
            share = machine.run("cat", f"/sys/fs/cgroup/cpu/{group}/cpu.shares").stdout.strip()
            found[unit] = share, machine.run("systemctl", "show", unit, "-P", "CPUShares").stdout.strip()
        return found

    before = values()
    assert before["writer.service"] == ("700", "700")

    def told() -> bool:
        now = values()
        raised = [unit for unit in now if int(now[unit][0]) > int(before[unit][0])]
        return bool(raised) and all(now[unit][0] == now[unit][1] for unit in raised)

    try:
        machine.run("systemctl", "start", "qioi")
        until(told, pause=0.2)
        pid = machine.shown("MainPID")
        machine.run("systemctl", "kill", "-s", "KILL", "qioi")
        until(lambda: machine.shown("MainPID") not in (pid, "0"), pause=0.2)
        assert "its original" in machine.journal()
        until(told, pause=0.2)
        machine.run("systemctl", "stop", "qioi")
        assert machine.shown("Result") == "success"
        assert values() == before, machine.journal()
        assert machine.run("find", "/run/systemd/system.control", "-name", "50-CPU*", check=False).stdout == ""
    finally:
        machine.run("systemctl", "stop", "qioi", "writer", check=False)
