"""The page "Will it fit?" in a browser, with a small table and with that of the site."""

import json
import re
import shutil
from pathlib import Path

import pytest
from evaluation.what_to_buy import offers

DOCS = Path(__file__).parents[3] / "docs"
COLUMNS = [
    *("model", "device", "training", "host_memory_gb", "drives", "tokens_per_step"),
    *("memory_needed_bytes", "ideal_step_seconds", "step_seconds", "ssd_bytes_read"),
    *("ssd_bytes_written", "host_peak_bytes", "waits_for"),
]


def row(model, device, training, host, drives, tokens, needed, ideal, step, waits_for, written=0):
    row = [model, device, training, host, drives, tokens, needed * 10**9, ideal, step]
    return [*row, 2 * written, written, host * 7 * 10**8, waits_for]


EIGHT = ("8b", "small", "full-fp32")
WRITES, LINK, FULL = "writes to drives and host", "the link to host memory", "host memory is full"
TABLE = {
    "format": "teraio-fit/1",
    "generated": "2026-11-29",
    "micro_batch_tokens": 8192,
    "models": [
        {"key": "8b", "name": "8B (Llama3)", "parameters": 8030261248},
        {"key": "70b", "name": "70B (Llama3)", "parameters": 70553706496},
    ],
    "devices": [
        {"key": "small", "name": "Small GPU", "memory_gb": 24, "price": 1600},
        {"key": "large", "name": "Large GPU", "memory_gb": 96, "price": None},
    ],
    "drive": {
        "name": "2 TB drive",
        "capacity_bytes": 2 * 10**12,
        "rated_bytes_written": 864 * 10**12,
        "price": 170,
    },
    "columns": COLUMNS,
    "rows": [
        row(*EIGHT, 64, 0, 10_000, 140, 5, None, FULL),
        row(*EIGHT, 64, 1, 10_000, 140, 5, 40, WRITES, written=10**11),
        row(*EIGHT, 64, 2, 10_000, 140, 5, 20, WRITES, written=10**11),
        row(*EIGHT, 64, 1, 50_000, 140, 25, 80, WRITES, written=10**11),
        row(*EIGHT, 128, 0, 10_000, 140, 5, 10, LINK),
        row(*EIGHT, 128, 1, 10_000, 140, 5, 20, LINK, written=4 * 10**10),
        row(*EIGHT, 128, 2, 10_000, 140, 5, 10, LINK),
        row(*EIGHT, 128, 1, 50_000, 140, 25, 40, LINK, written=4 * 10**10),
        row(*EIGHT, 128, 2, 50_000, 140, 25, 30, LINK),
        row("8b", "small", "lora", 64, 1, 10_000, 20, 4, 4, "nothing: compute is the limit"),
        row("70b", "large", "full-fp32", 256, 2, 10_000, 1200, 9, 300, WRITES, written=10**12),
    ],
}


# Gives what the page answers to each of these rows: the kind of answer, and the sentence.
ANSWERS = """rows => {
  const form = document.getElementById("fit");
  history.replaceState = () => {};  // browsers limit how often it is called
  const set = (name, value) => {
    if (form[name].value === String(value)) return;
    form[name].value = value;
    form[name].dispatchEvent(new Event("input", { bubbles: true }));
  };
  const names = ["model", "training", "device", "host_memory_gb", "drives", "tokens_per_step"];
  return rows.map(row => {
    for (const name of names) set(name, row[name]);
    return [form.dataset.answer, form.querySelector("output").textContent];
  });
}"""


@pytest.fixture
def fit(opened, tmp_path):
    """Opens the page at a fragment, with a table; gives the tab."""

    def fit(fragment="", table=None, **options):
        text = (DOCS / "will_it_fit.md").read_text()
        parts = re.search(r'<p id="fit-fallback">.*</script>', text, re.DOTALL)[0]
        page = tmp_path / "page.html"
        page.write_text(
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>Will it fit?</title>'
            '<meta name="viewport" content="width=device-width">'
            '<meta name="color-scheme" content="light dark"><link rel="stylesheet" href="site.css">'
            f"<body style='background: Canvas'><main><h1>Will it fit?</h1>{parts}</main></html>"
        )
        (tmp_path / "javascripts").mkdir(exist_ok=True)
        scripts = [tmp_path / "javascripts" / name for name in ("fit.js", "fit_table.js")]
        shutil.copy(DOCS / "javascripts" / "fit.js", scripts[0])
        scripts[1].write_text(table or f"window.TERAIO_FIT = {json.dumps(TABLE)};")
        shutil.copy(DOCS / "stylesheets" / "site.css", tmp_path)
        return opened(page, fragment, [*scripts, tmp_path / "site.css"], **options)

    return fit


def choose(tab, **choice):
    """Fills the controls of these names."""
    for name, value in choice.items():
        control = tab.locator(f"[name={name}]")
        if name in ("model", "training", "device"):
            control.select_option(value)
        else:
            control.fill(str(value))


def verdict(tab):
    return tab.locator("output").inner_text()


def facts(tab):
    """The facts by their names."""
    lines = [fact.inner_text().split("\n") for fact in tab.locator(".fit-facts div").all()]
    return {line[0]: line[1] for line in lines}


def offered(tab, name):
    return tab.locator(f"[name={name}] option").evaluate_all("all => all.map(each => each.value)")


def test_a_row_is_shown_as_it_is(fit):
    tab = fit()
    choose(tab, host_memory_gb=64, drives=2, tokens_per_step=10_000)
    assert verdict(tab) == "Yes, with TERAIO: 500 tokens/s, 25 % of ideal (predicted)."
    assert "from a row of the table of 2026-11-29" in tab.locator(".fit-how").inner_text()
    assert facts(tab) == {
        "Step": "20 s",
        "Tokens per second": "500",
        "Of ideal": "25 %",
        "Waits for": WRITES,
        "Written per step": "100 GB",
        "Drives last, 24 h a day": "4 days",  # 2 * 864e12 / (1e11 / 20 s) / 86,400 s
        "Host memory in use": "44.8 GB",
        "Price": "$1,940",
    }
    assert tab.locator(".fit-bars div").all_inner_texts() == [
        "Memory needed: 140 GB",
        "Memory of the device: 24 GiB",
    ]


def test_values_between_rows_are_interpolated(fit):
    tab = fit()
    choose(tab, host_memory_gb=80, drives=1, tokens_per_step=20_000)
    # a quarter of the way from 64 to 128 GB, and from 10,000 to 50,000 tokens:
    # 0.75 * (0.75 * 40 + 0.25 * 20) + 0.25 * (0.75 * 80 + 0.25 * 40) = 43.75 s, 10 s of them ideal
    assert verdict(tab) == "Yes, with TERAIO: 457 tokens/s, 23 % of ideal (predicted)."
    assert "interpolated between rows" in tab.locator(".fit-how").inner_text()
    told = facts(tab)
    assert told["Step"] == "43.8 s"
    assert told["Written per step"] == "85 GB"
    assert told["Drives last, 24 h a day"] == "5 days"  # 864e12 / (8.5e10 / 43.75 s) = 5.15
    assert told["Waits for"] == f"{WRITES}, or {LINK}"


def test_controls_offer_what_the_table_has(fit):
    tab = fit()
    assert offered(tab, "model") == ["8b", "70b"]
    assert offered(tab, "training") == ["full-fp32", "lora"]
    assert offered(tab, "device") == ["small"]
    choose(tab, host_memory_gb=64, model="70b")
    assert offered(tab, "training") == ["full-fp32"]
    assert offered(tab, "device") == ["large"]
    assert tab.locator("[name=host_memory_gb]").input_value() == "256"
    assert tab.locator("#fit-range-host_memory_gb").inner_text() == "The table has only 256."
    assert "Price" not in facts(tab)  # not known
    choose(tab, model="8b")
    assert tab.locator("[name=host_memory_gb]").input_value() == "128"
    assert tab.locator("#fit-range-drives").inner_text() == "The table has 0 to 2."
    assert tab.locator("#fit-host_memory_gb option").count() == 2


def test_what_does_not_fit_is_refused(fit):
    tab = fit()
    choose(tab, host_memory_gb=64, drives=0, tokens_per_step=10_000)
    assert verdict(tab) == "No, it does not fit: host memory is full."
    assert not tab.locator(".fit-facts").is_visible()
    assert not tab.locator(".fit-commands").is_visible()
    assert tab.locator(".fit-bars").is_visible()
    assert tab.locator(".fit-others tbody tr").all_inner_texts() == [
        "64 GB\tno\t250\t500",
        "128 GB\t1,000\t500\t1,000",
    ]


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        ({"host_memory_gb": 129}, "the table has 64 to 128 GB of host memory"),
        ({"host_memory_gb": ""}, "the table has 64 to 128 GB of host memory"),
        ({"drives": 3}, "the table has 0 to 2 drives"),
        ({"drives": 1.5}, "the table has 0 to 2 drives"),
        ({"tokens_per_step": 9_999}, "the table has 10,000 to 50,000 tokens per step"),
        ({"drives": 2, "tokens_per_step": 50_000}, "the table has only 128 GB of host memory here"),
        ({"drives": 0, "host_memory_gb": 96}, "one fits and another one does not"),
    ],
)
def test_nothing_is_said_where_the_table_has_nothing(fit, choice, why):
    tab = fit()
    choose(tab, **{"host_memory_gb": 64, "drives": 1, "tokens_per_step": 10_000} | choice)
    assert verdict(tab).startswith("Unknown: ") and why in verdict(tab)
    for part in (".fit-facts", ".fit-commands", ".fit-bars"):
        assert not tab.locator(part).is_visible()


def test_commands_have_the_choice(fit):
    tab = fit()
    choose(tab, host_memory_gb=64, drives=1, tokens_per_step=10_000)
    command = tab.locator(".fit-commands code")
    assert command.inner_text().splitlines() == [
        "teraio suggest train.py",
        "teraio run --device cuda --device-budget 23GB --host-limit 48GB --ssd /mnt/nvme0 train.py",
    ]
    choose(tab, drives=0, host_memory_gb=128)
    assert "--host-limit 96GB train.py" in command.inner_text()
    assert "Written per step" not in facts(tab)
    choose(tab, model="70b")  # its tensors need more than a run takes of drives by default
    assert "nvme0 --ssd /mnt/nvme1 --ssd-capacity 1320GB train.py" in command.inner_text()
    choose(tab, model="8b", training="lora")
    assert verdict(tab) == "Yes, it fits into the device memory (predicted). TERAIO is not needed."
    assert command.inner_text().splitlines() == ["teraio suggest train.py", "python train.py"]
    # the shares of memory are those of the predictions
    choose(tab, training="full-fp32", drives=1, host_memory_gb=128)
    host_share = json.loads(offers.FILE.read_text())["host_memory"]["usable_share"]
    budget_gb = int(offers.USABLE_DEVICE_SHARE * 24 * 2**30 / 1e9)
    expected = f"--device-budget {budget_gb}GB --host-limit {int(host_share * 128)}GB "
    assert expected in command.inner_text()


def test_a_device_that_no_wheel_is_for_has_no_commands(fit):
    devices = [each | {"is_arm": each["key"] == "small"} for each in TABLE["devices"]]
    tab = fit(table=f"window.TERAIO_FIT = {json.dumps(TABLE | {'devices': devices})};")
    assert tab.locator(".fit-facts").is_visible()
    assert not tab.locator(".fit-commands").is_visible()
    assert "there is no wheel for Arm" in tab.locator(".fit-how").inner_text()
    choose(tab, model="70b")  # on the other device
    assert tab.locator(".fit-commands").is_visible()
    assert "Arm" not in tab.locator(".fit-how").inner_text()


def test_a_link_restores_the_choice(fit):
    tab = fit()
    choose(tab, host_memory_gb=77, drives=1, tokens_per_step=12_345)
    told, address = verdict(tab), tab.evaluate("location.hash")
    again = fit(address)
    assert verdict(again) == told
    assert again.locator("[name=host_memory_gb]").input_value() == "77"
    again.evaluate("location.hash = '#model=70b&drives=2'")
    again.wait_for_function("document.querySelector('[name=device]').value === 'large'")
    again.evaluate("location.hash = '#how-to-read-it'")  # a heading
    assert again.locator("[name=model]").input_value() == "70b"
    unknown = fit("#model=9b&device=small")
    assert "does not have what the link names" in unknown.locator("[role=status]").inner_text()


def test_the_link_is_copied(fit):
    tab = fit(permissions=["clipboard-read", "clipboard-write"])
    tab.get_by_role("button", name="Copy a link").click()
    tab.get_by_text("Copied.").wait_for()
    copied = tab.evaluate("navigator.clipboard.readText()")
    assert copied == tab.url and "#model=8b&" in copied
    tab.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(); }")
    tab.get_by_role("button", name="Copy a link").click()
    tab.get_by_text("Copy it from the address bar.").wait_for()


def test_the_keyboard_is_enough(fit):
    tab = fit()
    names = []
    for _ in range(8):
        tab.keyboard.press("Tab")
        names.append(tab.evaluate("document.activeElement.name || document.activeElement.tagName"))
    machine = ["device", "host_memory_gb", "drives"]
    assert names == ["model", "training", "tokens_per_step", *machine, "PRE", "BUTTON"]
    for key in ("Shift+Tab", "Shift+Tab", "ArrowUp", *["Shift+Tab"] * 5, "ArrowDown"):
        tab.keyboard.press(key)
    assert tab.locator("[name=drives]").input_value() == "2"
    assert tab.locator("[name=model]").input_value() == "70b"


def test_everybody_can_read_it(fit, everybody_can_read, screen):
    tab = fit(**screen)
    everybody_can_read(tab)
    choose(tab, host_memory_gb=500)
    everybody_can_read(tab)


def test_the_table_of_the_site_is_answered(fit):
    """Each of its rows gives an answer, and all names and numbers in it are of the right kind."""
    text = (DOCS / "javascripts" / "fit_table.js").read_text()
    table = json.loads(text.removeprefix("window.TERAIO_FIT = ").removesuffix(";\n"))
    assert table["format"] == TABLE["format"] and table["columns"] == COLUMNS
    assert table.keys() == TABLE.keys() and len(table["rows"]) > 10
    text_of_page = (DOCS / "will_it_fit.md").read_text()
    assert f"micro-batches of {table['micro_batch_tokens']:,} tokens" in text_of_page
    for column, listed in (("model", "models"), ("device", "devices")):
        used = {each[COLUMNS.index(column)] for each in table["rows"]}
        assert used <= {each["key"] for each in table[listed]}
    keys = [tuple(each[:6]) for each in table["rows"]]
    assert len(keys) == len(set(keys))
    rows = [dict(zip(COLUMNS, each, strict=True)) for each in table["rows"]]
    for each, (answer, sentence) in zip(rows, fit(table=text).evaluate(ANSWERS, rows), strict=True):
        assert re.fullmatch("[a-z :]+", each["waits_for"]), each
        if each["step_seconds"] is None:
            reason = each["waits_for"].removeprefix("no: ")
            assert (answer, sentence) == ("no", f"No, it does not fit: {reason}."), each
        else:
            speed = each["tokens_per_step"] / each["step_seconds"]
            told = re.search(r"([\d.,]+) tokens/s", sentence)
            assert answer == "yes", each
            assert not told or float(told[1].replace(",", "")) == pytest.approx(speed, rel=0.01)


def test_without_scripts_there_is_a_link(fit):
    tab = fit(java_script_enabled=False)
    assert tab.locator("a[href='what_to_buy.html']").is_visible()
    assert not tab.locator("form").is_visible()
