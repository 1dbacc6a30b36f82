"""`make demo-k8s`: the demo on a real node, which it starts before and removes afterwards, also after ctrl-C."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import click
from rich.console import Console

from demo_k8s.cluster import Cluster
from demo_k8s.control_plane import lacking, until
from demo_k8s.demo import ClusterDemo, setting
from demo_k8s.host import remove_left, taken
from demo_k8s.images import daemon_image, ledger_image, sysbench_image
from demo_k8s.node import Node
from demo_k8s.tools import TOOLS, path
from qioi.commands.demo import measure, tell
from qioi.commands.lab_errors import one_line_errors
from qioi.lab.caliper import make_empty_folder
from qioi.lab.demo import DURATION, MODE, WARMUP, DemoOptions, write_results
from qioi.lab.options import LabOptions
from qioi.lab.signals import uninterrupted
from qioi.processes.errors import LabError

PORT = 18_800  # below those that the kernel gives to clients
PROGRAMS = ["etcd", "openssl", "containerd", "runc", "ctr", "go", "ip", "conntrack", "socat"]


@click.command()
@click.option("--sysbench", type=click.IntRange(1, 100), default=8, show_default=True, help="Interfering pods.")
@click.option(
    "--qos",
    type=click.Choice(["burstable", "besteffort"]),
    default="burstable",
    show_default=True,
    help="Class of all pods, the ledger's and sysbench's: weights count among pods of one class.",
)
@click.option("--mode", type=click.Choice(["block", "stream"]), default=MODE, show_default=True)
@click.option("--law", type=click.Choice(["adaptive", "proportional"]), default="adaptive", show_default=True)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Offered tps [default: 60 % of the maximum].")
@click.option("--duration", type=click.FloatRange(min=5), default=DURATION, show_default=True, help="Seconds measured.")
@click.option("--warmup", type=click.FloatRange(min=1), default=WARMUP, show_default=True, help="Seconds before.")
@click.option("--output", type=click.Path(file_okay=False, path_type=Path), help="[default: results/k8s-<time>]")
@click.option(
    "--clean",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _option, value: clean(context) if value else None,
    help="Remove the node of a run that was killed, and end.",
)
def main(
    sysbench: int,
    qos: str,
    mode: str,
    law: str,
    rate: float | None,
    duration: float,
    warmup: float,
    output: Path | None,
) -> None:
    """Measure the bundled ledger as pods: alone, beside pods of sysbench, and beside them with QiOi."""
    if why := lacking([name for name in TOOLS if name != "helm"], PROGRAMS) or taken():
        raise click.ClickException(why)
    burstable = qos == "burstable"
    directory = (output or Path("results") / time.strftime("k8s-%Y%m%d-%H%M%S")).resolve()
    console = Console()
    with one_line_errors(directory), ExitStack() as stack:
        make_empty_folder(directory)
        console.print("bringing a node up: etcd, API server, kubelet, containerd and the rest")
        node = Node(Path(tempfile.mkdtemp(prefix="qioi-node-")), PORT)
        stack.enter_context(taken_down(node.close, console))
        stack.enter_context(logs_of_a_failure(node.folder, directory / "node", console))
        cluster = bring_up(node)
        options = DemoOptions(
            sysbench, law, rate, None, duration, warmup, LabOptions(mode=mode), node.folder / "kubelet"
        )
        result = measure(
            lambda progress: ClusterDemo(options, directory, progress, cluster, burstable=burstable), console
        )
        report = write_results(result, directory, setting(burstable=burstable))
        tell(result, report, console)


def clean(context: click.Context) -> None:
    """Remove what is left of nodes, and end the command."""
    if why := lacking([], []):
        raise click.ClickException(why)
    with one_line_errors(), uninterrupted():
        left = remove_left()
    click.echo("\n".join(f"removed the node in {folder}" for folder in left) or "no node is left here")
    context.exit()


def bring_up(node: Node) -> Cluster:
    """Start the node and import the images."""
    node.start()
    images = node.folder / "images"
    images.mkdir()
    for make in (ledger_image, sysbench_image, daemon_image):
        node.import_image(make(images))
    until(lambda: node.plane.kubectl("get", "sa", "-n", "default", "-o", "name"), "accounts are made")
    return Cluster(path("kubectl"), node.plane.kubeconfig(), node.port, node.folder / "kubelet")


@contextmanager
def taken_down(take: Callable[[], None], console: Console) -> Iterator[None]:
    """Take the node down in the end, without interruption. What it leaves is told after what has failed before."""
    failed = ""
    try:
        yield
    except (LabError, OSError) as error:
        failed = f"{error}\n"
        raise
    finally:
        with uninterrupted():
            console.print("taking the node down")
            try:
                take()
            except (LabError, OSError) as error:
                raise LabError(f"{failed}{error}") from error


@contextmanager
def logs_of_a_failure(folder: Path, kept: Path, console: Console) -> Iterator[None]:
    """Keep the logs in a folder, and say where they are, when something fails."""
    try:
        yield
    except Exception:
        kept.mkdir(parents=True, exist_ok=True)
        for log in folder.glob("*.log"):
            shutil.copy(log, kept)
        console.print(f"what the node's programs have said: {kept}", highlight=False, markup=False, soft_wrap=True)
        raise


if __name__ == "__main__":
    main()
