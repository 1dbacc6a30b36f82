"""A virtual machine whose only cgroup hierarchy is v2: Debian's kernel, and its systemd as the first process.

Hosts that run the tests may have cgroup v1, where v2 has no CPU controller. Emulated (no KVM is needed), so slow: about
half a minute until the first command. The root file system is the one of the systemd tests (tests/deploy), written to
a disk image beside it; sources and packages come on a second disk. Both are read, never changed. Results
come back over the serial line.
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
#: The meta-package that names Debian's newest kernel for virtual machines.
KERNEL = "linux-image-cloud-amd64"
#: What of that kernel is needed to reach the disks, in the order of their dependence.
MODULES = ("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk")
TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio", "mkfs.ext4": "e2fsprogs",
    "debootstrap": "debootstrap", "dpkg-deb": "dpkg",
}  # fmt: skip
PACKAGES = ("qioi", "jeepney", "pytest", "pytest-timeout", "hypothesis")
#: Seconds for a whole run, start and all; it only says that the guest hangs.
PATIENCE = 560

INIT = """#!/bin/busybox sh
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t devtmpfs none /dev
for module in {modules}; do /bin/busybox insmod /modules/$module.ko; done
/bin/busybox mount -o ro /dev/vdb /mnt
/bin/busybox mount /dev/vda /disk
/bin/busybox mount --move /mnt /disk/opt
/bin/busybox umount /proc
exec /bin/busybox switch_root /disk /sbin/init
"""
COMMAND = """#!/bin/sh
# What runs in the guest, as a service of its systemd.
exec >/dev/ttyS0 2>&1
export PYTHONPATH=/opt/source:/opt/site PYTHONDONTWRITEBYTECODE=1 LD_LIBRARY_PATH=/opt/site QIOI_IN_GUEST=1 HOME=/root
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
systemctl start dbus.socket
cd /opt/source
python3 -m pytest --color=no -p no:cacheprovider {arguments}
echo "guest: exit status $?"
"""


class UnavailableError(Exception):
    """No guest can be had here; the message says what is missing."""


def run(*command: str, cwd: Path | None = None) -> str:
    """Run a tool; its last line is the reason if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode != 0:
        raise UnavailableError(f"{' '.join(command[:2])}: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
    return done.stdout


def kernel(cache: Path) -> Path:
    """Give the folder of an unpacked kernel package, downloaded if need be."""
    name = next(
        (match[1] for match in re.finditer(r"Depends: (linux-image-\S+)", run("apt-cache", "depends", KERNEL))), None
    )
    if name is None:
        raise UnavailableError(f"apt knows no {KERNEL}")
    folder = cache / name
    if not folder.exists():
        new = cache / f"{name}.{os.getpid()}"
        new.mkdir(parents=True)
        run("apt-get", "download", "-q", name, cwd=new)
        package = next(new.glob("*.deb"))
        run("dpkg-deb", "-x", str(package), str(new))
        package.unlink()
        new.rename(folder)
    return folder


def initial_disk(unpacked: Path, folder: Path, modules: Iterable[str]) -> Path:
    """Make the initramfs: busybox, the modules, and a script that goes on to systemd."""
    tree = folder / "initramfs"
    for name in ("bin", "proc", "dev", "mnt", "disk", "modules"):
        (tree / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "", tree / "bin" / "busybox")
    for module in modules:
        shutil.copy(next(unpacked.rglob(f"{module}.ko")), tree / "modules")
    (tree / "init").write_text(INIT.format(modules=" ".join(modules)))
    (tree / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(tree)) for path in tree.rglob("*"))
    packed = subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=names.encode(), cwd=tree, check=True,
                            capture_output=True).stdout  # fmt: skip
    image = folder / "initramfs.gz"
    image.write_bytes(gzip.compress(packed, 1))
    return image


def disk(tree: Path, image: Path, megabytes: int) -> Path:
    """Write a tree to a disk image."""
    run("mkfs.ext4", "-q", "-F", "-d", str(tree), str(image), f"{megabytes}M")
    return image


def root_disk(cache: Path, root: Path) -> Path:
    """Give the disk with the root file system, made if need be."""
    image = cache / f"{root.name}.img"
    if not image.exists():
        disk(root, cache / f"{image.name}.{os.getpid()}", 600).rename(image)
    return image


def packages(names: Iterable[str]) -> list[Distribution]:
    """Find installed packages and all that they need."""
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        try:
            one = distribution(name)
        except PackageNotFoundError:  # needed on other systems or by extras only
            continue
        if one.metadata["Name"] not in found:
            found[one.metadata["Name"]] = one
            waiting += [re.split(r"[ ;<>=!~\[(]", need)[0] for need in one.requires or () if "extra ==" not in need]
    return list(found.values())


def source_disk(folder: Path, arguments: Iterable[str]) -> Path:
    """Make the disk with the sources, the packages that they need, libcgroup, and the command that runs pytest."""
    return command_disk(folder, COMMAND.format(arguments=shlex.join(arguments)), {}, 160)


def command_disk(folder: Path, script: str, files: Mapping[str, Path], megabytes: int) -> Path:
    """Make the disk with the sources, the packages that they need, libcgroup, these files, and this command."""
    tree = folder / "opt"
    for name in ("qioi", "monitor", "controller", "interference", "tests"):
        ignore = shutil.ignore_patterns("caliper*", "lab" if name == "tests" else "", "*.log")
        shutil.copytree(REPOSITORY / name, tree / "source" / name, symlinks=True, ignore=ignore)
    shutil.copy(REPOSITORY / "pyproject.toml", tree / "source")
    for package in packages(PACKAGES):
        for file in package.files or ():
            if ".." not in file.parts and not file.name.startswith("__editable__"):
                target = tree / "site" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file.locate(), target)
    for library in Path("/usr/lib").glob("*/libcgroup.so.*"):
        shutil.copy(library, tree / "site")
    command = tree / "command"
    command.write_text(script)
    command.chmod(0o755)
    for name, file in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, tree / name)
    return disk(tree, folder / "opt.img", megabytes)


class Guest:
    """One boot: runs a command inside and powers off. ``modules`` are needed beyond those for the disks, in order."""

    def __init__(self, root: Path, folder: Path, modules: Sequence[str] = ()) -> None:
        missing = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
        if missing:
            raise UnavailableError(f"not installed: apt-get install {' '.join(missing)}")
        if not (root / "usr" / "bin" / f"python3.{sys.version_info.minor}").exists():
            raise UnavailableError(f"{root} has no python3.{sys.version_info.minor}")
        self._folder = folder
        self._kernel = kernel(root.parent)
        self._initramfs = initial_disk(self._kernel, folder, (*MODULES, *modules))
        self._root = root_disk(root.parent, root)

    def pytest(self, *arguments: str) -> tuple[int | None, str]:
        """Run pytest inside; give its exit status (``None``: it never got there) and all that was written."""
        with self.booted(source_disk(self._folder, arguments)) as process, suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE)  # the test says that it never got there, and shows what was written
        text = self.text()
        status = re.search(r"^guest: exit status (\d+)$", text, re.MULTILINE)
        return int(status[1]) if status else None, text

    def own_root(self) -> Path:
        """Give a root disk for several boots of the same machine."""
        copy = self._folder / "root.img"
        run("cp", "--sparse=always", str(self._root), str(copy))
        return copy

    @contextmanager
    def booted(
        self,
        source: Path,
        *,
        processors: int = 1,
        megabytes: int = 768,
        network: bool = False,
        root: Path | None = None,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Boot, with a disk made by :func:`command_disk`; it is off afterwards. Its serial line's input is a pipe.

        With a ``network`` it reaches this machine's loopback at 10.0.2.2, and nobody reaches it. ``root`` is a disk
        that keeps what is written, made by :meth:`own_root`.
        """
        image = next((self._kernel / "boot").glob("vmlinuz-*"))
        card = ["-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,romfile="]
        append = (
            "console=ttyS0 quiet panic=-1 cgroup_no_v1=all systemd.unified_cgroup_hierarchy=1 systemd.show_status=0 "
            "net.ifnames=0 systemd.run=/opt/command systemd.run_success_action=poweroff-force "
            "systemd.run_failure_action=poweroff-force"
        )
        with (self._folder / "serial").open("wb") as serial:
            process = subprocess.Popen(
                ["qemu-system-x86_64", "-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp",
                 str(processors), "-m", str(megabytes), "-nographic", "-no-reboot",
                 *(card if network else ["-nic", "none"]), "-kernel", str(image), "-initrd", str(self._initramfs),
                 "-drive", f"file={root or self._root},format=raw,if=virtio,snapshot={'off' if root else 'on'}",
                 "-drive", f"file={source},format=raw,if=virtio,readonly=on", "-append", append],
                stdin=subprocess.PIPE, stdout=serial, stderr=subprocess.STDOUT,
            )  # fmt: skip
            try:
                yield process
            finally:
                process.kill()
                process.communicate()

    def text(self) -> str:
        """Give what was written to the serial line so far."""
        return (self._folder / "serial").read_text(errors="replace").replace("\r", "")
