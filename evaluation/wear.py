"""The life of drives under a step, and what it costs to buy them again."""

import json

from evaluation import cases

SECONDS_PER_DAY = 86_400
DAYS_PER_YEAR = 365.25
SERVICE_YEARS = 3


def life_days(run):
    """Returns how many days the drives of the machine last when it trains such steps always."""
    if not run["ssd_bytes_written"]:
        return float("inf")
    drives = json.loads(cases.HARDWARE.read_text())["drives"]
    rated_bytes = sum(drive["rated_bytes_written"] for drive in drives)
    return rated_bytes / run["ssd_bytes_written"] * run["step_ns"] / 1e9 / SECONDS_PER_DAY


def life_text(run):
    """Formats life_days; empty when the step does not fit."""
    if "refused" in run:
        return ""
    days = life_days(run)
    if days == float("inf"):
        return "not written"
    if days < 10:
        return f"{days:.1f} days"
    return f"{days:.0f} days" if days < DAYS_PER_YEAR else f"{days / DAYS_PER_YEAR:.1f} years"


def costs(case, run, price, price_of_drives):
    """Formats the life of the drives, their price per year, and the price of 10^9 tokens.

    `price` is that of the server with its drives. It trains without a pause for SERVICE_YEARS, and
    worn drives are bought again; the first set counts by its share of the service, too.
    """
    years = min(life_days(run) / DAYS_PER_YEAR, SERVICE_YEARS)
    drives_per_year = price_of_drives / years
    per_year = (price - price_of_drives) / SERVICE_YEARS + drives_per_year
    tokens_per_year = (
        case.tokens_per_step / (run["step_ns"] / 1e9) * SECONDS_PER_DAY * DAYS_PER_YEAR
    )
    return [life_text(run), f"${drives_per_year:,.0f}", f"${per_year / tokens_per_year * 1e9:,.0f}"]
