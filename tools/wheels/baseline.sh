#!/bin/sh
# baseline.sh DIR: makes in DIR what the wheel is built against so that it runs on older systems: the C
# library and the shared C++ library of Debian 11 (glibc 2.31), for the compiler of this system.
# cmake/Baseline.cmake says how they are used.
set -eu

root=$1/root
release=bullseye
architecture=$(gcc -print-multiarch)

mkdir -p "$1"
mmdebstrap --quiet --variant=extract --include=libc6-dev,libstdc++6 "$release" "$root"
# The package's links to libraries are absolute: point them into the folder.
find "$root/lib64" "$root/usr/lib/$architecture" -type l -lname '/*' | while read -r link; do
  ln -sf "$root$(readlink "$link")" "$link"
done
# Headers of this system: those of the compiler's C++ library, and those of the kernel, which name
# calls that older kernels refuse.
for headers in c++ linux asm-generic "$architecture/asm" "$architecture/c++"; do
  rm -rf "$root/usr/include/$headers"
  ln -s "/usr/include/$headers" "$root/usr/include/$headers"
done
# What stands for -lstdc++. The linker takes these paths as they are, for this file is not in root/.
# The older C library has threads and dlopen in libraries of their own.
mkdir -p "$1/link"
cat >"$1/link/libstdc++.so" <<END
INPUT($root/usr/lib/$architecture/libstdc++.so.6 $(gcc -print-file-name=libstdc++.a))
INPUT(AS_NEEDED(-lpthread -ldl -lrt))
END
