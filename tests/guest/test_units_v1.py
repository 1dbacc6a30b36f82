"""systemd's units as components on cgroup v1: the tests in inside/, in a container; and QiOi's own unit beside them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml
from running import until
from systemd_machine import Machine, UnavailableError, root_file_system

pytestmark = [pytest.mark.slow, pytest.mark.host]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    try:
        machine = Machine(root_file_system(), tmp_path_factory.mktemp("machine"), rooted=True)
    except UnavailableError as error:
        pytest.skip(f"no systemd machine here: {error}")
    yield machine
    machine.close()


def test_everything_passes_on_cgroup_v1(machine: Machine) -> None:
    done = machine.run(
        "env", "PYTHONPATH=/opt/qioi/source:/opt/qioi/site", "PYTHONDONTWRITEBYTECODE=1", "QIOI_IN_GUEST=1",
        "python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "/opt/qioi/source/tests/guest/inside/test_units.py",
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    assert "skipped" not in done.stdout


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
    machine.run("systemd-run", "--unit=writer", "-p", "CPUShares=700", "/bin/sh", "/srv/qioi/writer.sh")
    control = "/run/systemd/transient/writer.service.d"  # set-property on a transient unit writes there

    def shares() -> int:
        return int(machine.run("cat", "/sys/fs/cgroup/cpu/system.slice/writer.service/cpu.shares").stdout)

    def told() -> bool:
        shown = machine.run("systemctl", "show", "writer", "-P", "CPUShares").stdout.strip()
        return shares() > 700 and shown == str(shares())

    try:
        machine.run("systemctl", "start", "qioi")
        until(told, pause=0.2)
        machine.run("systemctl", "kill", "-s", "KILL", "qioi")
        until(lambda: "its original" in machine.journal(), pause=0.2)
        until(told, pause=0.2)
        machine.run("systemctl", "stop", "qioi")
        assert machine.shown("Result") == "success"
        assert shares() == 700
        assert machine.run("systemctl", "show", "writer", "-P", "CPUShares").stdout.strip() == "700"
        assert machine.run("ls", control, check=False).stdout == ""
    finally:
        machine.run("systemctl", "stop", "qioi", "writer", check=False)
