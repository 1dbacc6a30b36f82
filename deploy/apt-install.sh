#!/bin/sh
# Install by apt what is missing of these packages, or programs of their name: apt-install.sh NAME...
# `--look` before the names installs nothing, and fails if any is missing.
#
# Nothing that is installed is removed for it. What needs the network is tried again. What apt can say without it is not:
# a name that it does not know, or a package that goes together with none of what is there.
#
# No service of theirs is started, now or at a boot: tests and experiments start what they need, and one of the host's
# would hold a port, or disturb what is measured.
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

policy=/usr/sbin/policy-rc.d

# Deny that packages start services (invoke-rc.d(8)), unless the host has its own word on that. It is denied to what this
# process runs alone: another apt may be at work, and nothing removes the file after a SIGKILL.
deny() {
    [ ! -e $policy ] || grep -q 'apt-install\.sh of QiOi' $policy || return 0
    placed=yes
    cat >$policy <<EOF
#!/bin/sh
# By apt-install.sh of QiOi, for what process $$ runs.
pid=\$\$
while [ "\${pid:-0}" -gt 1 ]; do
    [ "\$pid" != $$ ] || exit 101
    pid=\$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/\$pid/status")
done
EOF
    chmod 755 $policy
}

settle() {
    [ -z "$placed" ] || rm -f $policy
    [ -d /run/systemd/system ] || return 0
    disabled=
    for package in $new; do
        for unit in $(dpkg-query -L "$package" |
            sed -nE 's,.*/lib/systemd/system/([^/]+\.(service|socket|timer|path))$,\1,p'); do
            [ "$(systemctl is-enabled "$unit" 2>/dev/null)" != enabled ] || disabled="$disabled $unit"
        done
    done
    [ -n "$disabled" ] || return 0
    systemctl disable $disabled >/dev/null 2>&1 || true
    echo "== not started, now or at a boot:$disabled (\`systemctl enable --now UNIT\` is for whoever wants one)"
}

look=
[ "${1-}" != --look ] || { look=yes; shift; }
missing=
for name; do
    installed "$name" || missing="$missing $name"
done
[ -z "$look" ] || { [ -z "$missing" ]; exit; }
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
simulated=$($install --simulate $packages 2>/dev/null) || { $install -q=0 --simulate $packages >&2; exit 1; }
new=$(printf '%s\n' "$simulated" | sed -n 's/^Inst \([^ ]*\) (.*/\1/p') # in brackets stands what is upgraded
# One at a time, since each removes the policy at its end. Nothing that apt leaves behind holds the lock.
exec 9</usr/sbin
flock 9
placed=
trap settle EXIT
# dash runs no EXIT trap when a signal ends it.
trap 'exit 130' INT
trap 'exit 143' TERM HUP
deny
again $install $packages 9<&-
