#!/bin/sh
# Install by apt what is missing of these packages, or programs of their name: apt-install.sh NAME...
#
# Nothing that is installed is removed for it. What needs the network is tried again. What apt can say without it is not:
# a name that it does not know, or a package that goes together with none of what is there.
set -eu
export DEBIAN_FRONTEND=noninteractive

# QiOi does without these, and not every release has them by these names.
optional=' libcgroup2 linux-perf stress-ng '

installed() {
    command -v "$1" >/dev/null || dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

# Each command that fetches retries by its own means, too, and waits for another apt that is at work.
again() {
    for pause in 2 15 60 end; do
        "$@" >/dev/null && return
        [ $pause != end ] || return 1
        echo "== failed: once more in $pause s"
        sleep $pause
    done
}

missing=
for name; do
    installed "$name" || missing="$missing $name"
done
[ -n "$missing" ] || { echo '== apt packages: all there'; exit 0; }
[ "$(id -u)" = 0 ] || {
    needed=
    for name in $missing; do
        case $optional in *" $name "*) ;; *) needed="$needed $name" ;; esac
    done
    [ -n "$needed" ] || { echo "== not root: going on without$missing"; exit 0; }
    echo "== not root: missing packages, which root installs: apt-get install --no-install-recommends$needed" >&2
    exit 1
}
echo "== installing by apt:$missing"
# One of several sources may be gone for good: what is known of the others may do.
again apt-get update -qq -o Acquire::Retries=5 -o APT::Update::Error-Mode=any ||
    echo '== going on with what apt knows'
packages=
for name in $missing; do
    case $optional in
    *" $name "*) apt-cache show "$name" >/dev/null 2>&1 || { echo "== no package $name here: QiOi does without"; continue; } ;;
    esac
    packages="$packages $name"
done
[ -n "$packages" ] || exit 0
install="apt-get install -y -qq --no-install-recommends --no-remove -o Acquire::Retries=5 -o DPkg::Lock::Timeout=600"
# What does not go together apt names only where it is not quiet.
$install --simulate $packages >/dev/null 2>&1 || { $install -q=0 --simulate $packages >&2; exit 1; }
again $install $packages
