#!/bin/sh
# try_on_baseline.sh DIR [VERSION...]: runs try_wheel.py with these arguments on Debian 11, the oldest
# system that the wheel is for. Needs root. DIR keeps the system for the next time, 800 MB: Debian 11
# has no Python that is new enough, so it is compiled there from the source package of Debian 12.
set -eu

repository=$(cd "$(dirname "$0")/../.." && pwd)
root=$1/debian11
libraries=libssl-dev,zlib1g-dev,libffi-dev,libsqlite3-dev,libbz2-dev,liblzma-dev

if [ ! -e "$root/.ready" ]; then
  echo "Making Debian 11 with Python 3.11 in $root"
  rm -rf "$root"
  mmdebstrap --quiet --variant=minbase --include=build-essential,$libraries \
    --customize-hook='chroot "$1" sh -ec "
      sed \"s/^deb /deb-src /; s/bullseye/bookworm/; q\" /etc/apt/sources.list \
        >/etc/apt/sources.list.d/bookworm.list
      apt-get -qq update
      apt-get -qq -o APT::Sandbox::User=root source --download-only python3.11"' \
    bullseye "$root"
  chroot "$root" sh -ec "tar xf python3.11_*.orig.tar.*
    cd Python-3.11.*
    ./configure --quiet --prefix=/opt/python3.11
    make --silent -j$(nproc)
    make --silent install
    rm -rf /Python-3.11.* /python3.11_*" >"$root/python.log" 2>&1
  touch "$root/.ready"
fi

# The system gets this one's devices, network and certificates, for as long as the trial runs.
exec unshare --mount sh -eu -c '
  root=$1 repository=$2
  shift 2
  for path in /proc /sys /dev /etc/resolv.conf /etc/ssl "$repository"; do
    [ -d "$path" ] && mkdir -p "$root$path" || touch "$root$path"
    mount --rbind "$path" "$root$path"
  done
  exec chroot "$root" /opt/python3.11/bin/python3 "$repository/tools/wheels/try_wheel.py" "$@"
' sh "$root" "$repository" "$@"
