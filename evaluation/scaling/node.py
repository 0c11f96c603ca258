"""A machine of eight GPUs with drives and host memory, and what each of its ranks has of them.

Ranks share what the node has as docs/many_machines.md says: of host memory and of drives with a common
directory, each has an equal part; with `--ssd /mnt/nvme{local_rank}`, each has a drive of its own.
"""

from dataclasses import dataclass

from teraio.dry_run import accelerator

RANKS = 8
DEVICE = "h100-sxm"
# What a program can use of the device: the rest is for the CUDA context and rounding.
USABLE_DEVICE_SHARE = 0.92
LINK_BYTES_PER_SECOND = 55_000_000_000
HOST_BYTES = 512_000_000_000  # of a node, for tensors
DRIVE = {
    "capacity_bytes": 3_840_000_000_000,
    "read_bytes_per_second": 6_800_000_000,
    "write_bytes_per_second": 4_000_000_000,
    "duplex": 1.0,
}
REQUEST_LATENCY_NS = 80_000


@dataclass(frozen=True)
class Share:
    """What a rank has of the drives of its node: `part` of each of `drives` drives.

    `rates` are those of the drives in parts of DRIVE's, by number; a missing one is 1.
    """

    drives: int
    part: float
    rates: tuple = ()

    def hardware(self):
        """Returns the content of the rank's hardware file (docs/formats.md)."""
        memory_bytes = accelerator.load(DEVICE).memory_bytes
        link = {
            "read_bytes_per_second": LINK_BYTES_PER_SECOND,
            "write_bytes_per_second": LINK_BYTES_PER_SECOND,
        }
        return {
            "format": "teraio-hardware/1",
            "name": f"a rank of {RANKS}",
            "device_memory_bytes": int(USABLE_DEVICE_SHARE * memory_bytes),
            "device_link": link,
            "host": {"capacity_bytes": HOST_BYTES // RANKS, **link},
            "drives": [self._drive(number) for number in range(self.drives)],
            "request_latency_ns": REQUEST_LATENCY_NS,
        }

    def _drive(self, number):
        rate = self.part * (self.rates[number] if number < len(self.rates) else 1.0)
        return {
            "name": f"drive {number + 1}",
            "capacity_bytes": int(self.part * DRIVE["capacity_bytes"]),
            "read_bytes_per_second": int(rate * DRIVE["read_bytes_per_second"]),
            "write_bytes_per_second": int(rate * DRIVE["write_bytes_per_second"]),
            "duplex": DRIVE["duplex"],
        }


def shared(drives):
    """Returns the share of a rank whose node's ranks stripe over all drives."""
    return Share(drives, 1 / RANKS)


def own():
    """Returns the share of a rank that has a drive of its own."""
    return Share(1, 1.0)


def with_slow_drive(share, rate):
    """Returns the share when its first drive has `rate` of its rate, and the plan knows it.

    Later copies are striped in proportion to the rates, which then add up.
    """
    return Share(share.drives, share.part, (rate,))


def waiting_for_slow_drive(share, rate):
    """Returns the share when its first drive has `rate` of its rate, and striping is as before.

    Each tensor then has equal parts on all drives, and the slowest part decides.
    """
    return Share(share.drives, share.part, (rate,) * share.drives)
