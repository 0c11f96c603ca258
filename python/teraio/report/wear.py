"""What a run has moved over each drive, and how long the drive would last."""

from dataclasses import dataclass

_SECONDS_PER_DAY = 86400
_DAYS_PER_YEAR = 365.25
NO_PROBLEMS = "none"


@dataclass(frozen=True)
class DriveUse:
    """The use of one drive; bytes per day are those of steps that follow each other all day.

    `rated_bytes` and `life_days` are None where the drive's rated writes are not known.
    """

    name: str
    directory: str
    read_bytes: int
    written_bytes: int
    written_bytes_per_day: float
    rated_bytes: int | None
    life_days: float | None
    read_bytes_per_second: int
    write_bytes_per_second: int
    problems: str


def drive_uses(directory):
    """Returns a DriveUse per drive of a RunDirectory.

    Drives share the bytes of a step as they shared those of the whole run.
    """
    run = directory.run
    drives = run["counters"].get("ssd_drives", [])
    written_bytes = sum(drive["bytes_written"] for drive in drives)
    rated = _rated(directory.hardware)
    per_day = _written_per_second(directory) * _SECONDS_PER_DAY
    # The counters of a drive have the directory in its name.
    shares = {f"{each['name']} ({each['directory']})": each for each in run["share"]["drives"]}
    uses = []
    for drive in drives:
        part = drive["bytes_written"] / max(1, written_bytes)
        share = shares[drive["name"]]
        uses.append(_use(drive, share, rated.get(share["name"]), per_day * part))
    return uses


def _written_per_second(directory):
    seconds = sum(step["seconds"] for step in directory.settled_steps)
    written_bytes = sum(step["ssd_bytes_written"] for step in directory.settled_steps)
    return written_bytes / seconds if seconds else 0.0


def _rated(hardware):
    drives = hardware["drives"] if hardware else []
    return {drive["name"]: drive.get("rated_bytes_written") for drive in drives}


def _use(drive, share, rated_bytes, written_bytes_per_day):
    problems = [
        f"{drive['error_count']} errors" if drive["error_count"] else "",
        f"{drive['unanswered_count']} requests not answered in time"
        if drive["unanswered_count"]
        else "",
        drive["slowdown"],
    ]
    return DriveUse(
        name=share["name"],
        directory=share["directory"],
        read_bytes=drive["bytes_read"],
        written_bytes=drive["bytes_written"],
        written_bytes_per_day=written_bytes_per_day,
        rated_bytes=rated_bytes,
        life_days=_life_days(rated_bytes, written_bytes_per_day),
        read_bytes_per_second=share["read_bytes_per_second"],
        write_bytes_per_second=share["write_bytes_per_second"],
        problems="; ".join(each for each in problems if each) or NO_PROBLEMS,
    )


def _life_days(rated_bytes, written_bytes_per_day):
    if not rated_bytes or not written_bytes_per_day:
        return None
    return rated_bytes / written_bytes_per_day


def life_text(days):
    """Returns a time in days as text: "3.5 days", "4.6 years"."""
    return f"{days:.3g} days" if days < _DAYS_PER_YEAR else f"{days / _DAYS_PER_YEAR:.3g} years"
