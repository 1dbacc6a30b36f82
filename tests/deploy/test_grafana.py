"""The dashboard's queries and the alert rules, against a real Prometheus that scrapes a real daemon."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ports import free_port
from running import Site, end
from waiting import DIES_WITH_TEST, until

GRAFANA = Path(__file__).parents[2] / "deploy" / "grafana"
RULES = GRAFANA / "qioi-alerts.yaml"
DASHBOARD = json.loads((GRAFANA / "qioi-dashboard.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]

needs_prometheus = pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Debian's package prometheus")


def test_panels_stand_side_by_side_and_explain_themselves() -> None:
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    for panel in PANELS:
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert all(target["expr"] and target["legendFormat"] for target in panel["targets"])


@pytest.mark.parametrize("file", ["k8s/base/daemonset.yaml", "k8s/chart/values.yaml", "systemd/qioi.service"])
def test_memory_is_alerted_well_before_it_is_limited(file: str) -> None:
    (alerted,) = re.findall(r"resident_memory_bytes > (\S+)", RULES.read_text())
    limits = re.findall(r"(?:limits: {memory: |MemoryMax=)(\d+)M", (GRAFANA.parent / file).read_text())
    assert float(alerted) < 0.8 * int(limits[0]) * 2**20


@needs_prometheus
@pytest.mark.host
def test_alert_rules_fire_when_they_should_only(tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    shutil.copy(Path(__file__).parent / "qioi-alerts.test.yaml", tmp_path)
    for words in (["check", "rules", RULES.name], ["test", "rules", "qioi-alerts.test.yaml"]):
        done = subprocess.run(["promtool", *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    fired = set(re.findall(r'alertname="(\w+)"', (tmp_path / "qioi-alerts.test.yaml").read_text()))
    assert fired == {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}


class Prometheus:
    """A server of the test's own that scrapes one address."""

    def __init__(self, folder: Path, target: str) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        config = {
            "global": {"scrape_interval": "500ms", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [{"job_name": "qioi", "static_configs": [{"targets": [target]}]}],
        }
        folder.mkdir()
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*DIES_WITH_TEST, "prometheus", f"--config.file={folder}/prometheus.yml",
                 f"--storage.tsdb.path={folder}/data", f"--web.listen-address={self.url.removeprefix('http://')}"],
                stdout=log, stderr=log,
            )  # fmt: skip

    def ask(self, path: str, **query: str) -> Any:
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}") as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return None  # it reads its own log first
            raise AssertionError(f"{query}: {error.read().decode()}") from None
        except OSError:
            return None  # not up yet

    def values(self, expression: str) -> list[float]:
        """What an expression gives now."""
        data = self.ask("query", query=expression)
        return [float(one["value"][1]) for one in data["result"]] if data else []


@pytest.fixture
def scraped(site: Site) -> Iterator[Prometheus]:
    port = free_port()
    for name, role in (("peer0", "peer"), ("orderer0", "orderer"), ("client0", "client")):
        site.component(name, role)
    (site.folder / "orderer0.log").touch()
    site.components[1] |= {"log": str(site.folder / "orderer0.log"), "metrics_url": "http://127.0.0.1:1/metrics"}
    site.work("peer0", "import time\nwhile True: time.sleep(0.01)")
    site.changes = {"metrics": {"port": port}, "channels": {"red": {"threshold": 5, "law": "proportional"}}}
    daemon = site.start()
    server = Prometheus(site.folder / "prometheus", f"127.0.0.1:{port}")
    yield server
    server.process.terminate()
    server.process.wait()
    assert end(daemon)[0] == 0


@needs_prometheus
@pytest.mark.host
def test_every_query_of_the_dashboard_returns_data(site: Site, scraped: Prometheus) -> None:
    queries = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]
    variables = [one["definition"] for one in DASHBOARD["templating"]["list"] if "definition" in one]
    for label in ("label_values(", ")"):
        variables = [one.replace(label, "") for one in variables]
    queries += [("variable", one.rpartition(",")[0]) for one in variables]
    assert len(queries) > 25
    for _, query in queries:
        query = re.sub(r"\$(instance|channel)", ".*", query.replace("$__rate_interval", "10s"))
        assert "$" not in query
        site.commit_until(lambda query=query: bool(scraped.values(query)))
    # What the rules speak of exists too, and they are loaded.
    names = set(scraped.ask("label/__name__/values"))
    assert set(re.findall(r"\bqioi_\w+", yaml.safe_dump(yaml.safe_load(RULES.read_text())))) - {"qioi"} <= names
    until(lambda: healths(scraped) == {"ok"}, what="all rules have been evaluated")
    alerts = {one["labels"]["alertname"] for one in scraped.ask("alerts")["alerts"]}
    assert "QioiInputMissing" not in alerts  # its log can be read


def healths(server: Prometheus) -> set[str]:
    """Give how the rules are: none is there before they are loaded."""
    return {one["health"] for group in server.ask("rules")["groups"] for one in group["rules"]}


@pytest.mark.host
@needs_prometheus
def test_metrics_are_named_as_prometheus_wants_it(site: Site) -> None:
    port = free_port()
    site.component("peer0")
    site.changes = {"metrics": {"port": port}}
    daemon = site.start()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        page = answer.read()
    done = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    assert end(daemon)[0] == 0
