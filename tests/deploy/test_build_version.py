"""Each build between two releases has a version of its own, later than those before it."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import setuptools
import yaml
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
#: The name and tag of one of QiOi's images, as a manifest or `docker build -t` has it.
IMAGE = re.compile(r"\bqioi(?:-ledger|-sysbench|-nri)?:(\d[\w.-]*)")
Name = Callable[[str, Path], str]


@pytest.fixture
def defined(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Give what setup.py defines, without a build."""
    monkeypatch.setattr(setuptools, "setup", lambda **_: None)
    return runpy.run_path(str(ROOT / "setup.py"))


@pytest.fixture
def version(defined: dict[str, object]) -> Name:
    """Give what names a build of a tree."""
    found = defined["version"]
    assert callable(found)
    return found


def git(tree: Path, *words: str, at: str = "2026-01-02T03:04:05Z") -> str:
    who = {f"GIT_{one}_{key}": "test@localhost" for one in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    environment = {**os.environ, **who, "GIT_COMMITTER_DATE": at, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", *words], cwd=tree, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Make a repository with one file and one commit."""
    tree = tmp_path / "clone"
    tree.mkdir()
    git(tree, "init", "-q")
    (tree / "file").write_text("1")
    git(tree, "add", "file")
    git(tree, "commit", "-q", "-m", "one")
    return tree


def test_a_clone_names_its_commit(version: Name, clone: Path) -> None:
    assert version("0.2.0.dev0", clone) == f"0.2.0.dev20260102030405+g{git(clone, 'rev-parse', '--short', 'HEAD')}"


def test_a_later_commit_is_a_later_version_and_the_release_is_the_latest(version: Name, clone: Path) -> None:
    made = [version("0.2.0.dev0", clone)]
    git(clone, "commit", "-q", "--allow-empty", "-m", "two", at="2026-01-02T03:04:06Z")
    made += [version("0.2.0.dev0", clone), version("0.2.0", clone)]
    assert made[-1] == "0.2.0"
    assert sorted({"0.1.0", "0.2.0.dev0", *made}, key=Version) == ["0.1.0", "0.2.0.dev0", *made]


def test_a_clone_without_history_names_the_same(version: Name, clone: Path, tmp_path: Path) -> None:
    git(clone, "commit", "-q", "--allow-empty", "-m", "two")
    git(tmp_path, "clone", "-q", "--depth", "1", clone.as_uri(), "shallow")
    assert git(tmp_path / "shallow", "rev-parse", "--is-shallow-repository") == "true"
    assert version("0.2.0.dev0", tmp_path / "shallow") == version("0.2.0.dev0", clone)


def test_what_is_not_committed_is_a_version_of_its_own(version: Name, clone: Path) -> None:
    """Pip asks twice for one build, and takes one answer only."""
    committed = version("0.2.0.dev0", clone)
    made = []
    for second in (1_800_000_000, 1_800_000_001):
        (clone / "file").write_text(str(second))
        os.utime(clone / "file", (second, second))
        made.append(version("0.2.0.dev0", clone))
        assert version("0.2.0.dev0", clone) == made[-1]
    assert made[0].startswith("0.2.0.dev20270115080000+g")
    assert [one.endswith(".dirty") for one in (committed, *made)] == [False, True, True]
    assert sorted({*made, committed}, key=Version) == [committed, *made]
    git(clone, "checkout", "-q", "file")
    (clone / "more").touch()
    os.utime(clone / "more", (1_800_000_002, 1_800_000_002))
    assert version("0.2.0.dev0", clone) == made[1].replace("080001", "080002")
    (clone / "more").unlink()
    (clone / "file").unlink()
    assert version("0.2.0.dev0", clone) == f"{committed}.dirty"


def test_a_tree_that_is_no_clone_has_the_version_as_it_stands(version: Name, clone: Path) -> None:
    """Also below somebody else's clone."""
    (clone / "unpacked").mkdir()
    assert version("0.2.0.dev0", clone / "unpacked") == "0.2.0.dev0"


@pytest.mark.parametrize("says", ["echo fatal: detected dubious ownership >&2; exit 128", None])
def test_a_clone_whose_git_does_not_answer_says_so(
    version: Name,
    clone: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    says: str | None,
) -> None:
    if says is not None:
        (tmp_path / "git").write_text(f"#!/bin/sh\n{says}\n")
        (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert version("0.2.0.dev0", clone) == "0.2.0.dev0"
    (said,) = capsys.readouterr().err.splitlines()
    assert "this build is 0.2.0.dev0" in said
    assert ("dubious ownership" if says else "No such file") in said


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="needs a clone")
def test_where_git_does_not_answer_go_builds_all_the_same(
    defined: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unstamped = defined["unstamped"]
    assert callable(unstamped)
    built = ["make", "-n", "-C", str(ROOT / "ledger"), "build"]
    assert unstamped() == []
    assert "-buildvcs" not in subprocess.run(built, check=True, capture_output=True, text=True).stdout
    (tmp_path / "git").write_text("#!/bin/sh\nexit 128\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert unstamped() == ["-buildvcs=false"]
    assert "-buildvcs=false" in subprocess.run(built, check=True, capture_output=True, text=True).stdout


def test_all_that_names_the_version_names_the_same(defined: dict[str, object]) -> None:
    """The manifests' images, and the commands that make them; chart and values for Helm, which wants a hyphen."""
    files = [*(ROOT / "deploy").rglob("*"), *(ROOT / "docs").glob("*.md"), *(ROOT / "tests").glob("*/k8s_*.py")]
    texts = [file.read_text() for file in files if file.suffix in (".yaml", ".md", ".py") or file.name == "Dockerfile"]
    named = [tag for text in texts for tag in IMAGE.findall(text)]
    assert len(named) > 10
    chart, values = (
        yaml.safe_load((ROOT / "deploy/k8s/chart" / name).read_text()) for name in ("Chart.yaml", "values.yaml")
    )
    named += [chart["appVersion"], values["image"]["tag"], values["nri"]["image"]["tag"]]
    assert set(named) == {defined["VERSION"]}
    assert chart["version"] == str(defined["VERSION"]).replace(".dev", "-dev")


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb: not a Debian")
@pytest.mark.parametrize(
    ("package", "tag"),
    [
        ("0.2.0~~dev20260102030405+g1a2b3c.dirty", "0.2.0.dev20260102030405-g1a2b3c.dirty"),
        ("0.2.0~~dev0", "0.2.0.dev0"),
        ("0.2.0~rc1", "0.2.0rc1"),
        ("0.2.0", "0.2.0"),
    ],
)
def test_the_image_has_the_version_of_its_package(tmp_path: Path, package: str, tag: str) -> None:
    control = {"Package": "qioi", "Version": package, "Architecture": "all", "Maintainer": "test", "Description": "x"}
    (tmp_path / "root/DEBIAN").mkdir(parents=True)
    (tmp_path / "root/DEBIAN/control").write_text("".join(f"{key}: {its}\n" for key, its in control.items()))
    (tmp_path / "dist").mkdir()
    build = ["dpkg-deb", "--build", "root", "dist/qioi_x_all.deb"]
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "docker").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "docker").chmod(0o755)
    # -o: the package is as new as it need be.
    command = ["make", "-s", "-f", str(ROOT / "Makefile"), "-C", str(tmp_path), "-o", "deb", "image"]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert f"build -t qioi:{tag} " in done.stdout
    assert done.stdout.splitlines()[-1] == f"== made the image qioi:{tag}"
