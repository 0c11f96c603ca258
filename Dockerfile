# The demo, on any x86-64 machine with Docker and 6 GB of memory:
#
#     docker build -t teraio . && docker run --rm -it teraio
#
# Docker's default profile forbids io_uring, in whose place threads do the I/O; with
# --security-opt seccomp=unconfined it is used. `-v /mnt/nvme0:/teraio/build/demo` puts what is
# offloaded, the results and the report on a drive of yours.
FROM debian:12-slim

ENV PIP_NO_CACHE_DIR=1
WORKDIR /teraio

# What is installed stays in the cache of the image while only sources change.
COPY tools/setup tools/setup
RUN tools/setup/install_packages.sh ca-certificates make python3 python3-venv python3-dev python3-doc && \
    rm -rf /var/lib/apt/lists/*
COPY requirements requirements
COPY Makefile .
RUN make .venv/.demo

COPY . .
RUN make extension

# A volume is on a file system with direct I/O; the layers of the container may not be.
VOLUME /teraio/build/demo
CMD ["make", "demo"]
