"""The configuration: what is accepted, and every problem in one go."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from settings_file import GOOD, problems, write

from qioi.model import Credentials, Role
from qioi.model.counting import Count
from qioi.settings.config import load_config, survey
from qioi.settings.documents import ConfigError


def test_defaults(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, GOOD))
    assert config.period == 1.0
    assert config.state_dir == Path("/run/qioi")
    assert config.socket == Path("/run/qioi/qioi.sock")
    assert (config.metrics.listen, config.metrics.port) == ("127.0.0.1", 9464)
    assert config.components[0].role is Role.PEER
    assert config.components[0].log == str(tmp_path / "peer0.log")
    policy = config.policies["red"]
    assert (policy.law, policy.threshold, policy.k) == ("proportional", 500.0, 4.0)


def test_a_policy_is_completed_from_the_defaults(tmp_path: Path) -> None:
    document = {**GOOD, "defaults": {"law": "proportional", "k": 7, "ceiling": 9000, "threshold": 5},
                "channels": {"red": {"k": 2}}}  # fmt: skip
    policy = load_config(write(tmp_path, document)).policies["red"]
    assert (policy.law, policy.k, policy.ceiling, policy.threshold) == ("proportional", 2, 9000, 5)


def test_a_component_of_two_channels_makes_a_policy_for_each(tmp_path: Path) -> None:
    component = {**GOOD["components"][0], "channels": ["red", "blue"]}
    config = load_config(write(tmp_path, {**GOOD, "components": [component]}))
    assert config.policies["blue"].law == "adaptive"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"period": 0}, "qioi.yaml: period: 0: accepted is greater than or equal to 0.1"),
        ({"period": 61}, "qioi.yaml: period: 61: accepted is less than or equal to 60"),
        ({"period": "1"}, 'qioi.yaml: period: "1": accepted is a number, without quotes'),
        ({1: 2}, "qioi.yaml: 1: a key that is no text: accepted are texts, in quotes where"),
        ({"period": float("nan")}, "qioi.yaml: period: NaN: accepted is"),
        ({"perid": 1}, "qioi.yaml: perid: unknown key: accepted are period, lab, components"),
        ({"actuator": "pod"}, "qioi.yaml: actuator: \"pod\": accepted is 'auto', 'libcgroup', 'files' or 'docker'"),
        ({"actuator": "docker"}, "qioi.yaml: actuator: docker: accepted together with a section `docker` only"),
        ({"docker": {"sock": "/x"}}, "qioi.yaml: docker.sock: unknown key: accepted are socket, select, fabric"),
        ({"docker": {"socket": "tcp://h:2375"}}, 'qioi.yaml: docker.socket: "tcp://h:2375": accepted is the absolute'),
        ({"docker": {"select": [{}]}}, "qioi.yaml: docker.select.0.role: missing"),
        ({"docker": {"select": [{"rolle": 1}]}}, "qioi.yaml: docker.select.0.rolle: unknown key: accepted are role"),
        (
            {"podman": {"socket": "podman.sock"}},
            'qioi.yaml: podman.socket: "podman.sock": accepted is the absolute path',
        ),
        ({"containerd": {"state": "run"}}, 'qioi.yaml: containerd.state: "run": accepted is an absolute path'),
        ({"containerd": {"select": [{"x": 1}]}}, "qioi.yaml: containerd.select.0.x: unknown key: accepted are role"),
        ({"systemd": {}}, "qioi.yaml: systemd.units: missing"),
        ({"systemd": {"units": []}}, "qioi.yaml: systemd.units: []: accepted is"),
        ({"systemd": {"units": [{"role": "peer"}]}}, "qioi.yaml: systemd.units.0.unit: missing"),
        ({"systemd": {"units": [{"unit": "p.service", "rol": 1}]}}, "qioi.yaml: systemd.units.0.rol: unknown key: acc"),
        (
            {"systemd": {"units": [{"unit": "peer.timer", "role": "peer"}]}},
            'qioi.yaml: systemd.units.0.unit: "peer.timer": accepted is the name of a .service or .scope',
        ),
        (
            {"systemd": {"units": [{"unit": ".service", "role": "peer"}]}},
            'qioi.yaml: systemd.units.0.unit: ".service": accepted is the name of a .service or .scope',
        ),
        (
            {"systemd": {"units": [{"unit": "a.service", "role": "peer", "log": "x.log"}]}},
            'qioi.yaml: systemd.units.0.log: "x.log": accepted is an absolute path',
        ),
        (
            {"channels": {"red": {"threshold": 0}}},
            "qioi.yaml: channels.red.threshold: 0: accepted is a number greater than 0",
        ),
        ({"channels": {"red": {"threshold": float("inf")}}}, "qioi.yaml: channels.red.threshold: Infinity: accepted"),
        ({"channels": {"red": {"k": -1}}}, "qioi.yaml: channels.red.k: -1: accepted is greater than 0"),
        ({"channels": {"red": {"k": 5e9}}}, "qioi.yaml: channels.red.k: 5000000000.0: accepted is less than"),
        ({"channels": {"red": {"law": "pid"}}}, "qioi.yaml: channels.red.law: \"pid\": accepted is 'proportional' or"),
        (
            {"channels": {"red": {"floor": 1}}},
            "qioi.yaml: channels.red.floor: 1: accepted is greater",
        ),
        ({"channels": {"red": {"k2": 1}}}, "qioi.yaml: channels.red.k2: unknown key: accepted are threshold, law, k"),
        (
            {"channels": {"red": {"floor": 5000, "ceiling": 4000}}},
            "qioi.yaml: channels.red.floor: 5000: accepted is at most the ceiling, 4000",
        ),
        (
            {"channels": {"red": {"law": "proportional"}}},
            "qioi.yaml: channels.red.threshold: missing: law proportional needs a number",
        ),
        ({"channels": {"blue": {}}}, "qioi.yaml: channels.blue: no component with a `log` serves it"),
        (
            {"channels": {"red": {"throughput": {"metric": "a b"}}}},
            'qioi.yaml: channels.red.throughput.metric: "a b": accepted is a metric\'s name, as its page shows it',
        ),
        (
            {"channels": {"red": {"throughput": {"metric": "a_total", "combine": "mean"}}}},
            "qioi.yaml: channels.red.throughput.combine: \"mean\": accepted is 'sum' or 'max'",
        ),
        (
            {"channels": {"red": {"throughput": {"metric": "a_total"}}}},
            "qioi.yaml: channels.red.throughput: no component with a `metrics_url` serves it: accepted is one or more",
        ),
        ({"docker": None}, "qioi.yaml: docker: null: accepted is a mapping of keys to values, {} for one without keys"),
        ({"systemd": None}, "qioi.yaml: systemd: null: accepted is a mapping of keys to values, {} for one"),
        ({"channels": {"red": None}}, "qioi.yaml: channels.red: null: accepted is a mapping of keys to values, {} for"),
        ({"channels": []}, "qioi.yaml: channels: []: accepted is a mapping of keys to values"),
        (
            {"channels": {"my channel": {}}},
            'qioi.yaml: channels.my channel: "my channel": accepted is a channel\'s name',
        ),
        ({"channels": {"": {}}}, 'qioi.yaml: channels.: "": accepted is a channel\'s name'),
        ({"a\nb": 1}, "qioi.yaml: a b: unknown key: accepted are"),
        ({"socket": "a\0b"}, 'qioi.yaml: socket: "a\\u0000b": accepted is a path'),
        ({"state_dir": ""}, 'qioi.yaml: state_dir: "": accepted is a path'),
        ({"metrics": {"listen": "a\0b"}}, 'qioi.yaml: metrics.listen: "a\\u0000b": accepted is a name without'),
        ({"kubernetes": {"server": "https://h:x"}}, 'qioi.yaml: kubernetes.server: "https://h:x": accepted is a URL'),
        ({"metrics": {"port": 70000}}, "qioi.yaml: metrics.port: 70000: accepted is less than or equal to 65535"),
        ({"own": {"nice": -21}}, "qioi.yaml: own.nice: -21: accepted is greater than or equal to -20"),
        ({"dry_run": "yes"}, 'qioi.yaml: dry_run: "yes": accepted is a valid boolean'),
        ({"components": []}, "qioi.yaml: components: none: accepted is at least one"),
        ({"components": GOOD["components"] * 2}, "qioi.yaml: components: name 'peer0': more than once"),
        ({"best_effort": ["batch/job-**"]}, 'qioi.yaml: best_effort.0: "batch/job-**": accepted is `*` within'),
        ({"mine": ["a**/b"]}, 'qioi.yaml: mine.0: "a**/b": accepted is `*` within a part of the path, and `**` as a'),
        ({"lab": "nowhere"}, "nowhere/lab.json: No such file or directory: accepted is the folder of a lab that is up"),
    ],
)
def test_one_problem_one_line(tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    found = problems(tmp_path, {**GOOD, **change})
    assert any(problem.startswith(expected) for problem in found), found


@pytest.mark.parametrize("path", ["/abs", "../up", "a/../b", "", "a//b", "./a", "a/"])
def test_a_cgroup_cannot_lead_out_of_the_mount(tmp_path: Path, path: str) -> None:
    (found,) = problems(tmp_path, {**GOOD, "components": [{**GOOD["components"][0], "cgroup": path}]})
    assert found.startswith(f'qioi.yaml: components.0.cgroup: "{path}": accepted is a path below')


def test_every_problem_at_once(tmp_path: Path) -> None:
    bad = {"period": 0, "nope": 1, "components": [{"name": "", "role": "king"}], "metrics": {"port": "x"}}
    found = problems(tmp_path, bad)
    keys = {problem.split(": ")[1] for problem in found}
    assert keys == {
        "period", "nope", "components.0.name", "components.0.role", "components.0.cgroup", "metrics.port"
    }  # fmt: skip


def test_what_is_wrong_hides_no_other_problem(tmp_path: Path) -> None:
    peer1 = {"name": "peer1", "role": "peer", "cgroup": "fab/peer1"}
    bad = {
        "perod": 1,
        "components": [
            {**GOOD["components"][0], "role": "pear"},
            {**peer1, "lgo": "x"},
            {**peer1, "cgroup": "/fab/peer2"},
            {**peer1, "role": "orderer"},
        ],
        "channels": {"red": {"threshold": -1, "floor": 5000, "ceiling": 300}, "blue": {"law": "proportional"},
                     "green": {"law": "proportional", "threshold": 0}, "grey": {"floor": 20000, "ceiling": "high"}},
        "actuator": "docker",
        "lab": "nowhere",
    }  # fmt: skip
    path = write(tmp_path, bad)
    config, found = survey(path)
    keys = [problem.removeprefix(f"{path}: ").partition(": ")[0] for problem in found]
    assert sorted(key for key in keys if "lab.json" not in key) == [
        "actuator", "channels.blue.threshold", "channels.green.threshold", "channels.grey.ceiling",
        "channels.red.floor", "channels.red.threshold", "components", "components", "components.0.role",
        "components.1.lgo", "components.2.cgroup", "perod",
    ]  # fmt: skip
    assert len([one for one in found if "lab.json: No such file" in one]) == 1
    assert "components: name 'peer1': more than once: accepted is one component each" in "".join(found)
    assert config is not None
    assert [one.cgroup for one in config.components] == ["fab/peer1", "fab/peer1"]


@pytest.mark.parametrize(
    "change",
    [
        {
            "docker": {"sock": "/x"},
            "actuator": "docker",
            "components": [],
            "channels": {"red": {"law": "proportional"}},
        },
        {"components": [{**GOOD["components"][0], "source": "metrics", "metrics_url": "host:9443"}]},
        {"components": [{**GOOD["components"][0], "log": 5}]},
        {"components": [{**GOOD["components"][0], "log": 5, "source": "log"}]},
        {"defaults": {"threshold": -1}, "channels": {"red": {"law": "proportional"}}},
        {"defaults": {"ceiling": 1}, "channels": {"red": {"law": "proportional", "threshold": 5, "floor": 20_000}}},
        {"channels": {"red": []}},
        {"channels": 5},
        {"components": "none"},
        {"components": [5]},
    ],
)
def test_what_follows_from_a_wrong_value_is_no_problem_of_its_own(tmp_path: Path, change: dict[str, Any]) -> None:
    assert len(problems(tmp_path, {**GOOD, **change})) == 1


def test_a_value_that_json_does_not_know_is_shown_too(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, "components: []\ndocker: {}\nmetrics: {port: {2026-01-01: 1}}\n")
    assert found.startswith("qioi.yaml: metrics.port: {datetime.date(2026, 1, 1): 1}: accepted is")


@pytest.mark.parametrize("section", ["docker", "podman", "containerd", "systemd"])
def test_a_cluster_has_no_other_discovery(tmp_path: Path, section: str) -> None:
    other = {"units": [{"unit": "p.service", "role": "peer"}]} if section == "systemd" else {}
    (found,) = problems(tmp_path, {"kubernetes": {}, section: other})
    assert found.startswith("qioi.yaml: kubernetes: components, lab, docker, podman")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- 1\n", "qioi.yaml: (the whole file): [1]: accepted is"),
        ("", "qioi.yaml: components: none"),
    ],
)
def test_what_is_no_configuration_at_all(tmp_path: Path, text: str, expected: str) -> None:
    assert problems(tmp_path, text)[0].startswith(expected)


@pytest.mark.parametrize("text", ["\ufeffdocker: {}\n", "docker: {}\r\n"])
def test_files_as_editors_leave_them(tmp_path: Path, text: str) -> None:
    path = tmp_path / "qioi.yaml"
    path.write_bytes(text.encode())
    assert load_config(path).docker is not None


def test_what_is_said_once_can_be_meant_twice(tmp_path: Path) -> None:
    """YAML's anchors and merges; a key beside a merge wins over the merged one."""
    text = "docker: {}\ndefaults: &all {k: 3, floor: 500}\nchannels: {red: *all, blue: {<<: *all, k: 5}}\n"
    policies = load_config(write(tmp_path, text)).policies
    assert [(one.k, one.floor) for one in policies.values()] == [(3, 500), (5, 500)]


TLS = {"ca": "tls/ca.pem", "certificate": "tls/qioi.pem", "key": "/etc/qioi.key"}


def test_files_for_tls_stand_beside_the_configuration(tmp_path: Path) -> None:
    peer = {**GOOD["components"][0], "metrics_url": "https://peer0:9443/metrics", "metrics_tls": TLS}
    (found,) = load_config(write(tmp_path, {**GOOD, "components": [peer]})).components
    assert found.metrics_tls == Credentials(
        str(tmp_path / "tls/ca.pem"), str(tmp_path / "tls/qioi.pem"), "/etc/qioi.key"
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"metrics_url": "http://h:1/", "metrics_tls": TLS}, "components: peer0: metrics_tls: accepted together with"),
        ({"metrics_tls": TLS}, "components: peer0: metrics_tls: accepted together with a `metrics_url` of https only"),
        (
            {"metrics_url": "https://h:1/", "metrics_tls": {"key": "k"}},
            "components: peer0: metrics_tls: certificate and key: accepted together only",
        ),
        *(
            ({"metrics_url": url}, f"components.0.metrics_url: {json.dumps(url)}: accepted is a URL such as")
            for url in (
                "http://", "http:///metrics", "http://h:0/", "http://h:65536/", "http://h:x/", "http://u:p@h/",
                "http://h/a b", "http://h/\n", "ftp://h/", "http://[::1/", "http://h/\u00fc",
            )
        ),
        ({"name": "peer\x1b[2J"}, "components.0.name: "),
        ({"name": ""}, "components.0.name: "),
        ({"log": ""}, "components.0.log: "),
        ({"log": "a\0b"}, "components.0.log: "),
        ({"channels": ["red", "r d"]}, 'components.0.channels.1: "r d": accepted is a channel\'s name'),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_component(tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    found = problems(tmp_path, {**GOOD, "components": [{**GOOD["components"][0], **change}]})
    assert [one for one in found if one.startswith(f"qioi.yaml: {expected}")], found


def places(document: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in inner:
        yield (*place, key)
        if isinstance(value, dict | list):
            yield from places(value, (*place, key))


EXAMPLE = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "systemd" / "qioi.example.yaml").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("value", [{"a": {"b": []}}, [[]], {1: 2}, "\0", 1e999, date(2026, 1, 1), b"x", {"a": {1}}])
@pytest.mark.parametrize("place", list(places(EXAMPLE)), ids=lambda place: ".".join(map(str, place)))
def test_no_key_takes_just_anything(tmp_path: Path, place: tuple[Any, ...], value: object) -> None:
    document = copy.deepcopy(EXAMPLE)
    inner = document
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    found = problems(tmp_path, yaml.dump(document, allow_unicode=True))
    assert any(one.startswith(f"qioi.yaml: {'.'.join(map(str, place))}") for one in found), found


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory: accepted is a readable YAML file"):
        load_config(tmp_path / "none.yaml")


def test_a_labs_components_are_taken_in(tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "lab.json").write_text(json.dumps({"runtime": "process", "cgroup_root": "x", **GOOD, "channels": None}))
    config = load_config(write(tmp_path, {"lab": "lab", "channels": {"red": {"threshold": 5}}}))
    assert [component.name for component in config.components] == ["peer0"]
    assert config.components[0].log == str(tmp_path / "peer0.log")


@pytest.mark.parametrize(("content", "expected"), [("{", "accepted is the file that"), ("{}", "components: missing")])
def test_a_broken_lab_file(tmp_path: Path, content: str, expected: str) -> None:
    (tmp_path / "lab.json").write_text(content)
    (found,) = problems(tmp_path, {"lab": "."})
    assert found.startswith("lab.json: ")
    assert expected in found


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(st.sampled_from(["period", "components", "channels", "defaults", "metrics", "own", "socket", "lab"]), json_like)
def test_any_value_is_accepted_or_refused_in_words(tmp_path: Path, key: str, value: object) -> None:
    caught: tuple[str, ...] = ()
    try:
        load_config(write(tmp_path, {**GOOD, key: value}))
    except ConfigError as error:
        caught = error.problems
    assert all(": " in problem for problem in caught)


@pytest.mark.parametrize("value", [200, ["x", 1], None])
def test_a_label_that_is_no_text_is_one_problem(tmp_path: Path, value: object) -> None:
    change = {"channels": {"red": {"throughput": {"metric": "a_total", "labels": {"op": value}}}}}
    said = f"{json.dumps(value)}: accepted is a text, or a list of texts (quote numbers)"
    assert problems(tmp_path, {**GOOD, **change}) == [f"qioi.yaml: channels.red.throughput.labels.op: {said}"]


def test_a_channel_may_say_what_counts(tmp_path: Path) -> None:
    path = tmp_path / "qioi.yaml"
    node = {"name": "db1", "role": "replica", "cgroup": "db1", "channels": ["db"], "metrics_url": "http://127.0.0.1:1/"}
    document = {
        "components": [node],
        "channels": {"db": {"throughput": {"metric": "a_total", "labels": {"kind": "w", "op": ["x", "y"]}}}},
    }
    path.write_text(yaml.safe_dump(document))
    config = load_config(path)
    assert config.throughput == {"db": Count("a_total", {"kind": ("w",), "op": ("x", "y")}, "sum")}
    assert config.components[0].role is Role.REPLICA
    document["defaults"] = {"throughput": {"metric": "b_total"}}
    document["channels"] = {"db": {}}
    path.write_text(yaml.safe_dump(document))
    assert load_config(path).throughput == {"db": Count("b_total")}
