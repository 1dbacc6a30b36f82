"""What `make` installs by apt: real apt and dpkg-query, on a repository and a record of packages of the test's own."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "deploy/apt-install.sh"
pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt-get: not a Debian")


class Host:
    """A host whose dpkg only notes what it is asked to do, and for which no second passes.

    ``root`` has, in place of the host's, the files of what :meth:`serves` offers, and the policy on services.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root"
        for name in ("repository", "state/lists/partial", "cache/archives/partial", "etc", "log", "dpkg/info",
                     "dpkg/updates", "dpkg/triggers", "bin", "root/usr/sbin"):  # fmt: skip
            (folder / name).mkdir(parents=True)
        self.policy, self.systemd = self.root / "usr/sbin/policy-rc.d", self.root / "run/systemd/system"
        self.script = folder / "apt-install.sh"
        text = SCRIPT.read_text()
        for place in (self.policy, self.systemd):
            text = text.replace(f"/{place.relative_to(self.root)}", str(place))
        self.script.write_text(text)
        self.script.chmod(0o755)
        (folder / "dpkg/status").touch()
        (folder / "repository/Packages").touch()
        (folder / "etc/sources.list").write_text(f"deb [trusted=yes] file:{folder}/repository ./\n")
        (folder / "apt.conf").write_text(
            "".join(f'Dir::{name} "{folder}/{name.lower()}";\n' for name in ("State", "Cache", "Etc", "Log"))
            + f'Dir::State::status "{folder}/dpkg/status";\nDir::Bin::dpkg "{folder}/bin/dpkg";\n'
            + 'APT::Sandbox::User "root";\n'
        )
        self.program("dpkg", f'case $* in --*print*) ;; *) echo "$*" >>{folder}/done ;; esac')
        self.program("sleep", f'echo "$1" >>{folder}/slept')
        self.program("id", "echo 0")
        self.program("systemctl", f'echo "$*" >>{folder}/asked; case $* in *is-enabled*) echo enabled ;; esac')

    def program(self, name: str, says: str) -> None:
        file = self.folder / "bin" / name
        file.write_text(f"#!/bin/sh\n{says}\n")
        file.chmod(0o755)

    def serves(self, package: str, status: int = 0) -> None:
        """Offer a service, whose postinst ends so once it is to have been started; have the real dpkg install it."""
        root = self.folder / package
        (root / "DEBIAN").mkdir(parents=True)
        postinst = root / "DEBIAN/postinst"
        postinst.write_text(f"#!/bin/sh\nPATH={self.folder}/bin:$PATH deb-systemd-invoke start {package}.service\n"
                            f"cp -p {self.policy} {self.folder}/policy\nexit {status}\n")  # fmt: skip
        postinst.chmod(0o755)
        (root / "lib/systemd/system").mkdir(parents=True)
        (root / f"lib/systemd/system/{package}.service").touch()
        self.offer(package)
        real = f"{shutil.which('dpkg')} --admindir={self.folder}/dpkg --instdir={self.root} --log=/dev/null"
        self.program("dpkg", f'exec {real} --force-script-chrootless --force-not-root --force-bad-path "$@"')

    def offer(self, package: str, fields: str = "") -> None:
        """Have the repository have it, with further fields."""
        root, file = self.folder / package, self.folder / "repository" / f"{package}.deb"
        (root / "DEBIAN").mkdir(parents=True, exist_ok=True)
        control = f"Package: {package}\nVersion: 1\nArchitecture: all\nMaintainer: test\nDescription: x\n{fields}"
        (root / "DEBIAN/control").write_text(control)
        subprocess.run(["dpkg-deb", "--build", str(root), str(file)], check=True, capture_output=True)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        with (self.folder / "repository/Packages").open("a") as listed:
            listed.write(f"{control}Filename: ./{file.name}\nSize: {file.stat().st_size}\nSHA256: {digest}\n\n")

    def has(self, package: str, status: str = "install ok installed") -> None:
        """Have the host have it."""
        with (self.folder / "dpkg/status").open("a") as listed:
            listed.write(f"Package: {package}\nStatus: {status}\nVersion: 1\nArchitecture: all\n"
                         f"Maintainer: test\nDescription: x\n\n")  # fmt: skip

    def install(self, *packages: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "APT_CONFIG": str(self.folder / "apt.conf"),
            "DPKG_ADMINDIR": str(self.folder / "dpkg"),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
        }
        return subprocess.run(
            [str(self.script), *packages], env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    def noted(self, what: str) -> str:
        file = self.folder / what
        return file.read_text() if file.exists() else ""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_what_is_missing_is_installed(host: Host) -> None:
    host.offer("toy-missing")
    host.has("toy-there")
    done = host.install("toy-missing", "toy-there", "sh")
    assert (done.returncode, done.stdout) == (0, "== installing by apt: toy-missing\n"), done.stderr
    assert "toy-missing" in host.noted("done")
    assert "toy-there" not in host.noted("done")


def test_where_all_is_there_apt_is_not_asked(host: Host) -> None:
    host.has("toy-there")
    host.program("apt-get", "exit 1")
    done = host.install("toy-there", "sh")
    assert (done.returncode, done.stdout) == (0, "== apt packages: all there\n")


def test_one_may_look_without_an_installation(host: Host) -> None:
    host.has("toy-there")
    host.program("apt-get", f"echo asked >>{host.folder}/done")
    assert host.install("--look", "toy-there", "sh").returncode == 0
    done = host.install("--look", "toy-there", "toy-missing")
    assert (done.returncode, done.stdout, done.stderr, host.noted("done")) == (1, "", "", "")


def test_a_removed_package_whose_configuration_stayed_is_missing(host: Host) -> None:
    host.offer("toy-removed")
    host.has("toy-removed", "deinstall ok config-files")
    assert host.install("toy-removed").returncode == 0
    assert "toy-removed" in host.noted("done")


def test_nothing_is_removed_for_it_and_no_repeat_would_help(host: Host) -> None:
    host.offer("toy-new", "Conflicts: toy-there\n")
    host.has("toy-there")
    done = host.install("toy-new")
    assert done.returncode != 0
    assert "toy-there" in done.stderr, "what stands in the way is named"
    assert host.noted("done") + host.noted("slept") == ""


def test_a_name_that_apt_does_not_know_is_said_once(host: Host) -> None:
    done = host.install("toy-unknown")
    assert done.returncode != 0
    assert done.stderr.count("Unable to locate package toy-unknown") == 1
    assert host.noted("slept") == ""


def test_what_qioi_does_without_is_left_out_where_there_is_no_such_name(host: Host) -> None:
    host.offer("toy-missing")
    done = host.install("toy-missing", "linux-perf")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "== installing by apt: toy-missing linux-perf",
        "== no package linux-perf here: QiOi does without",
    ]
    assert "toy-missing" in host.noted("done")
    assert host.install("linux-perf").returncode == 0


def test_who_is_not_root_is_told_in_one_line_what_to_install(host: Host) -> None:
    host.has("toy-there")
    host.program("id", "echo 1000")
    host.program("apt-get", f"echo asked >>{host.folder}/done")
    done = host.install("toy-missing", "toy-there", "toy-other")
    assert (done.returncode, done.stdout, host.noted("done")) == (1, "", "")
    (said,) = done.stderr.splitlines()
    assert said.endswith("apt-get install --no-install-recommends toy-missing toy-other")


def test_who_is_not_root_goes_on_without_what_qioi_does_without(host: Host) -> None:
    host.program("id", "echo 1000")
    done = host.install("libcgroup2", "linux-perf")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "== not root: going on without libcgroup2 linux-perf\n",
        "",
    )
    done = host.install("libcgroup2", "toy-missing")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("apt-get install --no-install-recommends toy-missing\n")


def test_what_fetches_is_tried_again(host: Host) -> None:
    host.program("apt-get", f"echo asked >>{host.folder}/done; exit 100")
    assert host.install("toy-missing").returncode == 100
    assert host.noted("slept").split() == ["2", "15", "60"]
    assert host.noted("done").count("asked") == 4 + 2, "then it is asked what it knows, and what is wrong"


def test_a_source_that_does_not_answer_is_asked_again_and_ends_nothing(host: Host) -> None:
    """`apt-get update` itself takes it for a warning."""
    host.offer("toy-missing")
    with (host.folder / "etc/sources.list").open("a") as sources:
        sources.write(f"deb [trusted=yes] file:{host.folder}/gone ./\n")
    done = host.install("toy-missing")
    assert done.returncode == 0, done.stderr
    assert host.noted("slept").split() == ["2", "15", "60"]
    assert "toy-missing" in host.noted("done")


def test_a_service_is_not_started_now_or_at_a_boot(host: Host) -> None:
    host.systemd.mkdir(parents=True)
    host.has("toy-there")
    (host.folder / "dpkg/info/toy-there.list").write_text("/lib/systemd/system/toy-there.service\n")
    host.serves("toy-served")
    done = host.install("toy-served", "toy-there")
    assert done.returncode == 0, done.stderr
    assert host.noted("policy"), "its postinst has run"
    assert "start" not in host.noted("asked").split()
    assert host.noted("asked").splitlines()[-1] == "disable toy-served.service", "and not what was there before"
    assert done.stdout.splitlines()[1].startswith("== not started, now or at a boot: toy-served.service (")
    assert not host.policy.exists()


def test_without_a_systemd_nothing_is_asked_of_it(host: Host) -> None:
    host.serves("toy-served")
    done = host.install("toy-served")
    assert (done.returncode, done.stdout) == (0, "== installing by apt: toy-served\n"), done.stderr
    assert host.noted("asked") == ""
    assert not host.policy.exists()


def test_after_a_failure_services_may_be_started_again(host: Host) -> None:
    host.serves("toy-broken", status=1)
    assert host.install("toy-broken").returncode == 1
    assert host.noted("policy")
    assert not host.policy.exists()


@pytest.mark.parametrize("status", [0, 101])
def test_what_the_host_says_of_services_stays_in_force(host: Host, status: int) -> None:
    host.policy.write_text(own := f"#!/bin/sh\nexit {status}\n")
    host.policy.chmod(0o755)
    host.serves("toy-served")
    assert host.install("toy-served").returncode == 0
    assert ("start" in host.noted("asked").split()) == (status == 0)
    assert host.policy.read_text() == own


def test_after_a_kill_services_may_be_started_again(host: Host) -> None:
    """No trap runs, so the file stays: it denies to what that process has begun, and the next run removes it."""
    host.program("apt-get", "case $* in *simulate*|update*) ;; *) kill -KILL $PPID ;; esac")
    assert host.install("toy-missing").returncode == -9
    left = host.policy.read_text()
    with subprocess.Popen(["sleep", "100"]) as stranger:
        for pid, status in ((None, 0), (stranger.pid, 0), (os.getpid(), 101)):
            host.policy.write_text(re.sub(r"(process|!=) \d+", rf"\1 {pid}", left) if pid else left)
            assert subprocess.run([str(host.policy), "toy", "start"], check=False).returncode == status
        stranger.kill()
    (host.folder / "bin/apt-get").unlink()
    host.serves("toy-served")
    done = host.install("toy-served")
    assert (done.returncode, host.policy.exists()) == (0, False), done.stderr
    assert "start" not in host.noted("asked").split()
