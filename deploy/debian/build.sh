#!/bin/sh
# Build the Debian package of the daemon: dist/qioi_VERSION_ARCH.deb, for Debian 12 (Python 3.11).
#
# It holds QiOi and its Python dependencies in a folder of their own, /usr/lib/qioi, apart from the host's. Dependencies
# are wheels for the target's Python, also if the building host has another. It needs dpkg-deb and pip, and no debhelper.
# The bundled ledger is not in it, since an operator's host has a ledger.
#
# PYTHON names an interpreter that has pip, setuptools 70.1 or later, and QiOi itself (default: python3). `make deb` takes
# the environment that `make setup` makes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
source=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}
out=${1:-$source/dist}

arch=$(dpkg --print-architecture)
case $arch in
    amd64) machine=x86_64 ;;
    arm64) machine=aarch64 ;;
    *) echo "build.sh: architecture $arch: accepted are amd64 and arm64" >&2; exit 1 ;;
esac

# One after the other: where pip is imported, setuptools can't be (Python 3.11).
{ "$python" -m pip --version >/dev/null && "$python" -c 'import qioi.cli, setuptools.command.bdist_wheel'; } ||
    { echo "build.sh: PYTHON $python: lacks the above: accepted is .venv/bin/python after make setup" >&2; exit 1; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# dash runs no EXIT trap when a signal ends it.
trap 'exit 130' INT
trap 'exit 143' TERM HUP
root=$work/root
mkdir -p "$work/wheel" "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/doc/qioi/examples" \
    "$root/usr/share/bash-completion/completions" "$root/lib/systemd/system" "$root/etc/qioi"

# The build's files go to the work folder, so that remains of an earlier build in the source tree are not taken.
printf '[build]\nbuild_base = %s\n' "$work/build" >"$work/extra.cfg"
QIOI_NO_LEDGER=1 DIST_EXTRA_CONFIG=$work/extra.cfg "$python" -m pip wheel -q --no-deps --no-build-isolation \
    -w "$work/wheel" "$source"
wheel=$(ls "$work"/wheel/qioi-*.whl)
# Python's pre-releases come before the release, and so do Debian's with a ~.
version=$(basename "$wheel" | cut -d- -f2 | sed -E 's/^([0-9.]+)(a|b|rc)/\1~\2/; s/\.dev/~~dev/')
case $version in
    *~~dev0) echo "build.sh: Git tells of no commit in $source: this package is $version, as any other one made so" >&2 ;;
esac

"$python" -m pip install -q --no-compile --target "$root/usr/lib/qioi" --only-binary=:all: \
    --implementation cp --python-version 3.11 --platform "manylinux2014_$machine" \
    --platform "manylinux_2_17_$machine" --platform "manylinux_2_28_$machine" \
    "qioi[docker,systemd] @ file://$wheel"
rm -rf "$root/usr/lib/qioi/bin"
# pip notes the folder that the wheel was built in.
rm -f "$root"/usr/lib/qioi/qioi-*.dist-info/direct_url.json
sed -i '/direct_url\.json,/d' "$root"/usr/lib/qioi/qioi-*.dist-info/RECORD

# -I: neither the caller's environment nor the current folder decides what root's daemon imports.
command() {
    cat >"$root/usr/bin/$1" <<WRAPPER
#!/usr/bin/python3 -I
import sys

sys.path.insert(0, "/usr/lib/qioi")
from $2 import main

sys.exit(main())
WRAPPER
    chmod 755 "$root/usr/bin/$1"
}
command qioi qioi.cli
command kubectl-qioi qioi.commands.kubectl

sed 's|/usr/local/bin/qioi|/usr/bin/qioi|g; s|^# QiOi.s daemon under systemd\..*|# QiOi'"'"'s daemon under systemd.|' \
    "$source/deploy/systemd/qioi.service" >"$root/lib/systemd/system/qioi.service"
cp "$here/qioi.yaml" "$root/etc/qioi/qioi.yaml"
cp "$source/deploy/systemd/qioi.example.yaml" "$source"/deploy/grafana/* "$root/usr/share/doc/qioi/examples/"
cp "$here/copyright" "$root/usr/share/doc/qioi/"
# Of the other pages, which are not in the package, the name alone stays.
sed -E 's|\]\(\.\./deploy/systemd/qioi\.example\.yaml\)|](examples/qioi.example.yaml)|g
        s|\]\(\.\./deploy/systemd/qioi\.service\)|](/lib/systemd/system/qioi.service)|g
        s|\]\(\.\./deploy/grafana/\)|](examples/)|g
        s|\[([^]]*)\]\([^)]*\.md(#[^)]*)?\)|\1|g' "$source/docs/operating.md" >"$root/usr/share/doc/qioi/operating.md"
"$python" -m qioi.cli completion bash >"$root/usr/share/bash-completion/completions/qioi"

cp "$here/postinst" "$here/prerm" "$here/postrm" "$root/DEBIAN/"
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm" "$root/DEBIAN/postrm"
echo /etc/qioi/qioi.yaml >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<CONTROL
Package: qioi
Version: $version
Architecture: $arch
Maintainer: The QiOi authors <qioi@localhost>
Installed-Size: $(du -sk "$root" | cut -f1)
Depends: python3 (>= 3.11), python3 (<< 3.12), libc6 (>= 2.28)
Recommends: ca-certificates, libcgroup2
Section: admin
Priority: optional
Description: performance isolation for a permissioned ledger
 QiOi keeps a ledger such as Hyperledger Fabric as fast beside noisy neighbours
 as it is alone: a daemon that watches commits and the scheduling delay of peers
 and orderers, raises their CPU shares while others disturb them, and restores every
 share. Its default configuration writes nothing (dry_run).
CONTROL
(cd "$root" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

find "$root" -type d -exec chmod 755 {} +
find "$root/usr/lib" "$root/usr/share" "$root/etc" "$root/lib" -type f -exec chmod go+r,go-w {} +
# The image takes the one package that is there, so older ones go.
mkdir -p "$out"
rm -f "$out"/qioi_*.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$out/qioi_${version}_$arch.deb"
