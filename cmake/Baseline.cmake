# Builds for an older system than this one: TERAIO_BASELINE is a folder that tools/wheels/baseline.sh
# made. The C library and the shared C++ library are those of the older system; what that C++ library
# lacks comes from the static one of the compiler. Headers that the older system lacks, such as those
# of liburing, are this system's.
add_compile_options(--sysroot=${TERAIO_BASELINE}/root -idirafter /usr/include)
set(libraries ${TERAIO_BASELINE}/root/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
add_link_options(--sysroot=${TERAIO_BASELINE}/root -L${TERAIO_BASELINE}/link
  -B${libraries} -L${libraries} -L${TERAIO_BASELINE}/root/lib/${CMAKE_LIBRARY_ARCHITECTURE}  # before this system's, which the compiler names
  -Wl,--as-needed -Wl,--exclude-libs=libstdc++.a)
# The shared libraries of these on this system need its C library.
set(teraio_fmt fmt::fmt-header-only)
set(teraio_spdlog spdlog::spdlog_header_only fmt::fmt-header-only)
