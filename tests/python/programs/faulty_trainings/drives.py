"""The library whose drives fail and lie (testing/faulty_drives/faulty_drives.h), from Python."""

import ctypes
import json
import re
from pathlib import Path

LIBRARY = Path(__file__).parents[4] / "build" / "testing" / "faulty_drives" / "libfaulty_drives.so"
DRIVE_COUNT = 3

RATES = (
    "passing_error",
    "partial",
    "late",
    "read_error",
    "write_error",
    "full",
    "flipped_by_read",
    "flipped_by_write",
    "lost",
    "misdirected",
    "torn",
)
KINDS = (*RATES, "dead")


class Rates(ctypes.Structure):
    """FaultyDrivesRates."""

    _fields_ = [(name, ctypes.c_double) for name in RATES]


class Fault(ctypes.Structure):
    """FaultyDrivesFault."""

    _fields_ = [
        ("drive", ctypes.c_int32),
        ("is_write", ctypes.c_int32),
        ("kind", ctypes.c_int32),
        ("offset_bytes", ctypes.c_int64),
        ("use_count", ctypes.c_int64),
    ]

    def as_list(self):
        direction = "write" if self.is_write else "read"
        return [self.drive, direction, KINDS[self.kind], self.offset_bytes, self.use_count]

    @classmethod
    def from_list(cls, values):
        drive, direction, kind, offset_bytes, use_count = values
        return cls(drive, direction == "write", KINDS.index(kind), offset_bytes, use_count)


class FaultyDrives:
    """What happens to the requests of the drives from now on. The library is preloaded."""

    def __init__(self):
        self._library = ctypes.CDLL(str(LIBRARY))
        self._library.faulty_drives_stop.restype = ctypes.c_int64
        self._library.faulty_drives_faults.restype = ctypes.c_int64

    def start(self, seed, rates, death=None):
        """Draws faults at these rates. `death`: a drive, and the first and last request that it
        does not answer."""
        drive, dies_at, heals_at = death or (-1, 0, 0)
        self._library.faulty_drives_start(
            ctypes.c_uint64(seed),
            ctypes.byref(rates),
            ctypes.c_int32(drive),
            ctypes.c_int64(dies_at),
            ctypes.c_int64(heals_at),
        )

    def repeat(self, seed, faults):
        """Brings the faults, each as Fault.as_list() has it, and no others."""
        array = (Fault * len(faults))(*(Fault.from_list(each) for each in faults))
        self._library.faulty_drives_repeat(
            ctypes.c_uint64(seed), array, ctypes.c_int64(len(faults))
        )

    def hang(self, drive, direction, after, released_after):
        self._library.faulty_drives_hang(drive, direction, ctypes.c_int64(after))
        if released_after is not None:
            self._library.faulty_drives_release_after(ctypes.c_int64(released_after))

    def stop(self):
        """Returns how many requests failed, lied or hung."""
        return self._library.faulty_drives_stop()

    def faults(self):
        """Returns those that failed or lied, as lists."""
        count = self._library.faulty_drives_faults(None, ctypes.c_int64(0))
        array = (Fault * count)()
        self._library.faulty_drives_faults(array, ctypes.c_int64(count))
        return [fault.as_list() for fault in array]


class Machine:
    """Three drives of unequal speed, whose folders are in `folder`."""

    # The share of the measured rates that the planner knows of.
    SPEEDS = (1, 0.5, 0.2)

    def __init__(self, folder):
        folder.mkdir()
        self.drives = [folder / f"drive{number}" for number in range(DRIVE_COUNT)]
        for drive in self.drives:
            drive.mkdir()
        self.cache = folder / "cache"
        (self.cache / "teraio").mkdir(parents=True)
        self._probes = {}

    def note_probes(self, cache):
        """Takes the drives' rates from the cache of a session that has used them."""
        for entry in (cache / "teraio").glob("probe-*.json"):
            probe = json.loads(entry.read_text())
            if number := re.match(r"dev-250:(\d+) ", probe["identity"]):
                speed = self.SPEEDS[int(number[1]) - ord("0")]
                for name in ("read_bytes_per_second", "write_bytes_per_second"):
                    probe[name] = int(probe[name] * speed)
                self._probes[entry.name] = json.dumps(probe)
        assert len(self._probes) == DRIVE_COUNT

    def settle(self):
        """Sets the rates again, which runs replace by those that they see."""
        for name, text in self._probes.items():
            (self.cache / "teraio" / name).write_text(text)

    def left_behind(self):
        return [str(path) for drive in self.drives for path in drive.iterdir()]
