"""The bundled network under the unmodified Java client (fabric-gateway) and an unmodified Java chaincode."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bundled_network import BundledNetwork, Served
from maven import PATIENCE as MAVEN_PATIENCE
from maven import TRIES, Compiled, JavaMissingError, compile_program, find_java
from waiting import PATIENCE

# Two programs are resolved by Maven first.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * TRIES * MAVEN_PATIENCE)]
HERE = Path(__file__).parent
#: What the same steps print in the Node client, and, of the gateway session, with Fabric 2.5.16.
EXPECTED = {
    "GatewaySession": HERE.parent / "caliper" / "data" / "gateway-session.txt",
    "TourSession": HERE.parent / "data" / "tour-session.txt",
}
EITHER, BOTH = "OR('Org1MSP.peer','Org2MSP.peer')", "AND('Org1MSP.peer','Org2MSP.peer')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        find_java()
    except JavaMissingError as error:
        pytest.skip(str(error))
    return tmp_path_factory.mktemp("java")


@pytest.fixture(scope="module")
def client(folder: Path) -> Compiled:
    return compile_program(HERE / "client", folder / "client")


@pytest.fixture(scope="module")
def network(folder: Path) -> Iterator[BundledNetwork]:
    """The contract tour is the Java one; marbles and kv are the ledger's own."""
    java = Served(compile_program(HERE / "chaincode", folder / "chaincode").command("Serve"), {})
    network = BundledNetwork(folder / "network", {"marbles": BOTH, "tour": BOTH, "kv": EITHER}, ["session"])
    try:
        network.up(lambda name: java if name == "tour" else None)
        yield network
    finally:
        network.down()


@pytest.mark.parametrize("main", EXPECTED)
def test_a_session_of_the_java_client(network: BundledNetwork, client: Compiled, main: str) -> None:
    """GatewaySession: results, errors, codes, events, blocks. TourSession: all that a (Java) chaincode can ask for."""
    done = subprocess.run(
        [*client.command(main), str(network.description), "session"],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stdout.splitlines() == EXPECTED[main].read_text().splitlines()
