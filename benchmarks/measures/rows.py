"""The rows of a benchmark's results, and what its arms have in common."""

from arms.arm import ArmResult


def differences(results: dict[str, list[ArmResult]]) -> set[str]:
    """The names of the arms whose losses or parameters differ from the first arm's."""
    bits = {
        name: {(r.training["losses_sha256"], r.training["parameters_sha256"]) for r in each}
        for name, each in results.items()
    }
    first = next(iter(bits.values()))
    return {name for name, each in bits.items() if each != first or len(each) != 1}


def row(name: str, value: float, reference: float, met: bool | None) -> dict:
    """`met` is None where there is no target."""
    ratio = value / reference if reference else None
    return {"name": name, "value": value, "reference": reference, "ratio": ratio, "met": met}
