"""The machines on offer, from offers.json: what they can do, and what they cost."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from teraio import accelerator

FILE = Path(__file__).with_name("offers.json")
# What a program can use of a device: the rest is for the CUDA context and rounding.
USABLE_DEVICE_SHARE = 0.92
SECONDS_PER_MONTH = 365.25 / 12 * 86_400


@dataclass(frozen=True)
class Machine:
    """One device with host memory and drives; `assumptions` is the content of offers.json."""

    assumptions: dict
    device: dict
    host_memory_gb: int
    drives: int

    @property
    def key(self):
        return f"{self.device['accelerator']}-{self.host_memory_gb}gb-{self.drives}"

    def with_drives(self, count):
        return replace(self, drives=count)

    @property
    def device_name(self):
        return accelerator.load(self.device["accelerator"]).name.removeprefix("NVIDIA ")

    def hardware(self):
        """Returns the content of its hardware file (docs/formats.md)."""
        link = self.device["link_bytes_per_second"]
        memory_bytes = accelerator.load(self.device["accelerator"]).memory_bytes
        return {
            "format": "teraio-hardware/1",
            "name": self.key,
            "device_memory_bytes": int(USABLE_DEVICE_SHARE * memory_bytes),
            "device_link": {"read_bytes_per_second": link, "write_bytes_per_second": link},
            "host": {
                "capacity_bytes": int(self.host_memory_gb * 10**9 * self._host["usable_share"]),
                "read_bytes_per_second": self._host["read_bytes_per_second"],
                "write_bytes_per_second": self._host["write_bytes_per_second"],
            },
            "drives": [self._drive(number) for number in range(self.drives)],
            "request_latency_ns": 20_000,
        }

    @property
    def _host(self):
        """Returns the assumptions about host memory; a device may come with memory of its own."""
        return self.assumptions["host_memory"] | self.device.get("host_memory", {})

    def _drive(self, number):
        described = ("price", "date", "source")
        drive = {k: v for k, v in self.assumptions["drive"].items() if k not in described}
        return drive | {"name": f"drive {number + 1}"}

    def price(self):
        """Returns the price of the machine with its drives."""
        memory_gib = self.host_memory_gb * 10**9 / 2**30
        return self._price_without_memory() + memory_gib * self._host["price_per_gib"]

    def _price_without_memory(self):
        drives = self.drives * self.assumptions["drive"]["price"]
        return self.assumptions["machine"]["price"] + self.device["price"] + drives

    def drive_life_months(self, bytes_written, seconds):
        """Returns how long the drives last when they write so much in so many seconds, always."""
        if not bytes_written:
            return float("inf")
        rated = self.drives * self.assumptions["drive"]["rated_bytes_written"]
        return rated / (bytes_written / seconds) / SECONDS_PER_MONTH

    def price_per_month(self, life_months):
        """Returns the price per month of service; drives are bought again when they wear out."""
        service = self.assumptions["service_months"]
        drives = self.drives * self.assumptions["drive"]["price"]
        return (self.price() - drives) / service + drives / min(life_months, service)


def machines(keys, host_memories_gb, drive_counts):
    """Returns the machines of the devices `keys`, by device, host memory and drives.

    A device that comes with host memory is in them with this memory alone.
    """
    assumptions = load()
    return [
        Machine(assumptions, device, host_memory_gb, drives)
        for device in assumptions["devices"]
        if device["accelerator"] in keys
        for host_memory_gb in _memories_of(device, host_memories_gb)
        for drives in drive_counts
    ]


def load():
    """Returns the assumptions: the content of offers.json."""
    return json.loads(FILE.read_text())


def _memories_of(device, host_memories_gb):
    own = device.get("host_memory")
    return [own["gb"]] if own else host_memories_gb
