"""The bundled ledger's manifests, and the Secrets made for them: a real API server takes all of it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from demo_k8s.control_plane import ControlPlane

from qioi.commands.lab import command

LEDGER = Path(__file__).parents[2] / "deploy/k8s/ledger"


@pytest.mark.slow
def test_the_server_takes_the_ledger_its_load_and_its_neighbours(plane: ControlPlane) -> None:
    for file in ("namespace.yaml", "sysbench/namespace.yaml"):
        plane.kubectl("apply", "-f", LEDGER / file)
    secrets = CliRunner().invoke(command, ["secrets"]).output
    plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", text=secrets)
    plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", LEDGER / "policy.yaml")
    for folder in (LEDGER, LEDGER / "load", LEDGER / "sysbench"):
        said = plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-k", folder)
        # The namespaces' own level of Pod Security is named by a warning where a pod does not keep to it.
        assert "Warning" not in said


def test_ledger_and_neighbours_have_one_class_and_ask_for_the_same() -> None:
    """Pods of another class would be out of reach, or not compete, and with another request they would be found with
    other shares. Without limits, and with a request, they are Burstable.
    """
    asked = set()
    for file in ("orderers.yaml", "peers.yaml", "chaincodes.yaml", "sysbench/deployment.yaml"):
        for one in yaml.safe_load_all((LEDGER / file).read_text()):
            (container,) = one["spec"]["template"]["spec"]["containers"]
            assert container["resources"].keys() == {"requests"}
            asked.add(container["resources"]["requests"]["cpu"])
    assert len(asked) == 1
