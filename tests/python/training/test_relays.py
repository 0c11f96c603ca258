"""Plans in which tensors rest in host memory before the drives have them are executed."""

import json
from collections import defaultdict

import pytest
from matrix import budgets
from tests.python.training.test_better_plans import trained

pytestmark = pytest.mark.usefixtures("one_settled_thread")


def make_relays(plan, op_count):
    """Gives all copies of the plan to host memory, and those that are written once for a rest of
    at least 20 ops go on to the drives in the middle of it. Returns their number."""
    of_tensor = defaultdict(list)
    for migration in plan["migrations"]:
        migration["tier"] = "host"
        of_tensor[migration["tensor"]].append(migration)
    relays = []
    for tensor, migrations in of_tensor.items():
        actions = {migration["action"]: migration for migration in migrations}
        if sorted(actions) != ["offload", "prefetch"] or len(migrations) != 2:
            continue
        leaves = actions["offload"]["trigger_op"]
        rest = (actions["prefetch"]["trigger_op"] - leaves) % op_count
        if rest < 20:
            continue
        first, second, last = ((leaves + rest * part // 4) % op_count for part in (1, 2, 3))
        read = {"action": "prefetch", "tier": "host", "trigger_op": first, "deadline_op": second}
        write = {"action": "offload", "tier": "ssd", "trigger_op": second, "deadline_op": last}
        relays += [{"tensor": tensor, **read}, {"tensor": tensor, **write}]
        actions["prefetch"]["tier"] = "ssd"
    plan["migrations"] = sorted(plan["migrations"] + relays, key=lambda each: each["trigger_op"])
    return len(relays) // 2


def test_what_rests_in_host_memory_goes_on_to_the_drives(tmp_path):
    expected = trained()
    with budgets.offload(budgets.UNLIMITED) as session:
        trained(steps=2)
    budget_bytes = session.counters()["natural_peak_bytes"] // 2
    with budgets.offload(budget_bytes, recompute="off") as session:
        trained(steps=4)
    session.plan().save(tmp_path / "plan.json")
    session.trace().save(tmp_path / "trace.json")
    plan = json.loads((tmp_path / "plan.json").read_text())
    ops = json.loads((tmp_path / "trace.json").read_text())["ops"]
    assert make_relays(plan, len(ops)) > 5
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    options = {"recompute": "off", "plan": tmp_path / "plan.json", "host_limit": "200MB"}
    with budgets.offload(budget_bytes, **options) as session:
        assert trained() == expected
    planned = [each for each in session.iterations() if each["mode"] == "planned"]
    assert planned[-1]["ssd_bytes_written"] > 0
    assert planned[-1]["ssd_bytes_read"] > 0
