"""`qioi run` as a process, against a real API server: which means it chooses, and that it acts and ends by it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_k8s.control_plane import PATIENCE, ControlPlane, until
from demo_k8s.host import remove_groups
from demo_k8s.objects import add_policy, admit_pods, pods_path, start_pod
from k8s_policy_objects import policy_status

from qioi.kernel.hierarchy import find_hierarchy
from qioi.kubernetes.requests import ORIGINAL_ANNOTATION
from qioi.processes.errors import LabError
from qioi.show.http import UnreachableError, get_json

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture
def group(namespace: str) -> Iterator[str]:
    """A group of the tests' own where the kubelet's would be."""
    name = f"qioi-test-{namespace}"
    yield name
    remove_groups(name)


def test_a_request_is_moved_while_the_daemon_runs(
    plane: ControlPlane, namespace: str, group: str, tmp_path: Path
) -> None:
    node, pods = f"{namespace}-node", pods_path(namespace)
    admit_pods(plane, namespace)
    uid = start_pod(plane, namespace, "peer0", node, labels={"qioi.io/role": "peer"})["metadata"]["uid"]
    hierarchy = find_hierarchy()
    hierarchy.folder(f"{group}/kubepods/burstable/pod{uid}/{'peer0':0<64}").mkdir(parents=True)
    add_policy(plane, namespace, "red", bounds={"floor": 150}, resize=True)
    add_policy(plane, namespace, "dry", bounds={"floor": 4096}, dryRun=True)  # asks for most, and has no say
    (tmp_path / "token").write_text(plane.token())
    cluster = {"server": plane.server, "ca": str(plane.ca), "token": str(tmp_path / "token"), "node": node,
               "cgroup_root": group, "logs": str(tmp_path), "resize": True, "nri": str(tmp_path / "none")}  # fmt: skip
    settings = {"kubernetes": cluster, "state_dir": str(tmp_path), "period": 0.5, "metrics": {"port": 0}}
    (tmp_path / "qioi.yaml").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "qioi.cli"]
    checked = subprocess.run([*command, "check", "-c", tmp_path / "qioi.yaml"], cwd=ROOT, capture_output=True,
                             text=True, check=False)  # fmt: skip
    assert checked.returncode == 0, checked.stderr
    assert "\nactuator: resize\n" in checked.stdout
    assert "none: No such file" in checked.stdout
    log = (tmp_path / "log").open("w+")
    daemon = subprocess.Popen([*command, "run", "-c", tmp_path / "qioi.yaml"], stdout=log, stderr=log, cwd=ROOT)

    def pod() -> tuple[str, Any]:
        one = plane.call("GET", f"{pods}/peer0")
        request = str(one["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        return request, (one["metadata"].get("annotations") or {}).get(ORIGINAL_ANNOTATION)

    def entry() -> Any:
        return (policy_status(plane, namespace, "red").get("components") or [{}])[0]

    try:
        until(lambda: pod() == ("147m", "100m"), "the request is what makes the floor's shares")
        until(lambda: entry().get("actuator") == "resize", "the policy's status tells")
        told = get_json(tmp_path / "qioi.sock", "/explain", component=f"{namespace}/peer0")
        assert str(told["actuator"]).startswith("resize; Burstable")
        assert get_json(tmp_path / "qioi.sock", "/status")["kubernetes"]["actuator"].startswith("resize: ")
    except (AssertionError, LabError, UnreachableError) as error:
        raise AssertionError((tmp_path / "log").read_text()) from error
    finally:
        daemon.send_signal(signal.SIGTERM)
        ended = daemon.wait(PATIENCE)
        log.close()
    assert ended == 0
    # At once, although the group has 1024 and not the request's 102: on cgroup v2 every group counts as 1024.
    assert "request 100m -> 147m" in (tmp_path / "log").read_text()
    assert pod() == ("100m", None)
