// The page "Will it fit?": what the table of fit_table.js says about a choice. The table is a script
// and not data to fetch, so that the page also works when it is opened as a file.
(() => {
  "use strict";

  const KINDS = ["model", "training", "device"]; // chosen among those of the table
  const AXES = ["tokens_per_step", "drives", "host_memory_gb"]; // numbers, interpolated
  const AXIS_NAMES = { host_memory_gb: "GB of host memory", drives: "drives", tokens_per_step: "tokens per step" };
  const TRAININGS = { "full-fp32": "all weights, fp32 states", "full-bf16": "all weights, bf16 states", lora: "LoRA" };
  // Of the memory of a device and of the host, what a run may use: as in the predictions.
  const USABLE = { device: 0.92, host: 0.75 };

  const table = window.TERAIO_FIT;
  const form = document.getElementById("fit");
  if (!form || !table || table.format !== "teraio-fit/1") return;
  const rows = table.rows.map((row) => Object.fromEntries(table.columns.map((name, at) => [name, row[at]])));
  const find = (selector) => form.querySelector(selector);
  const number = (value) =>
    value.toLocaleString("en-US", value < 1000 ? { maximumSignificantDigits: 3 } : { maximumFractionDigits: 0 });
  const percent = (share) => `${(100 * share).toFixed(0)} %`;
  const seconds = (value) => (value >= 120 ? `${number(value / 60)} min` : `${number(value)} s`);

  function bytes(value) {
    const [unit, name] = value >= 1e12 ? [1e12, "TB"] : value >= 1e9 ? [1e9, "GB"] : [1e6, "MB"];
    return `${number(value / unit)} ${name}`;
  }

  function life(days) {
    if (days > 3652) return "over 10 years";
    if (days >= 730) return `${(days / 365.25).toFixed(0)} years`;
    return days >= 31 ? `${(days / 30.44).toFixed(1)} months` : `${days.toFixed(0)} days`;
  }

  const named = (kind, key) =>
    kind === "training" ? TRAININGS[key] || key : table[`${kind}s`].find((each) => each.key === key).name;
  const rowsOf = (choice, kinds = KINDS) => rows.filter((row) => kinds.every((kind) => row[kind] === choice[kind]));
  const values = (some, column) => [...new Set(some.map((row) => row[column]))];
  const points = (some, axis) => values(some, axis).sort((a, b) => a - b);

  // The points of an axis on both sides of a value with their weights, or null outside of them.
  function around(all, value) {
    const below = all.filter((point) => point <= value).pop();
    const above = all.find((point) => point >= value);
    if (below === undefined || above === undefined) return null;
    const share = above === below ? 0 : (value - below) / (above - below);
    return share ? [[below, 1 - share], [above, share]] : [[below, 1]];
  }

  function range(all) {
    const [least, most] = [all[0], all[all.length - 1]].map((value) => value.toLocaleString("en-US"));
    return least === most ? `only ${least}` : `${least} to ${most}`;
  }

  // The rows around a choice with their weights. Along the axes, not all combinations are rows: the
  // points of an axis are those of the rows that the axes before it leave.
  function rowsAround(some, axes, choice) {
    if (!axes.length) return [{ ...some[0], weight: 1 }];
    const [axis, ...others] = axes;
    const all = points(some, axis);
    const isPossible = axis === "host_memory_gb" || Number.isInteger(choice[axis]);
    const near = isPossible && around(all, choice[axis]);
    if (!near) return [{ outside: `the table has ${range(all)} ${AXIS_NAMES[axis]} here` }];
    return near.flatMap(([value, weight]) =>
      rowsAround(some.filter((row) => row[axis] === value), others, choice).map((row) => ({ ...row, weight: row.weight * weight })));
  }

  // What the table says about a choice: {unknown: why}, {refused: why, ...}, or the columns of a row,
  // which are weighted means of up to eight rows.
  function predict(choice) {
    const used = rowsAround(rowsOf(choice), AXES, choice);
    const unknown = used.map((row) => row.outside).find(Boolean);
    if (unknown) return { unknown };
    const fitting = used.filter((row) => row.step_seconds !== null);
    if (fitting.length && fitting.length < used.length)
      return { unknown: "of the rows on both sides of this choice, one fits and another one does not" };
    const said = { ...mean(used), waits_for: values(used, "waits_for").join(", or "), exact: used.length === 1 };
    return fitting.length ? said : { ...said, refused: said.waits_for };
  }

  function mean(used) {
    const columns = table.columns.filter((name) => /bytes|seconds/.test(name));
    return Object.fromEntries(
      columns.map((name) => [name, used.reduce((sum, row) => sum + row.weight * row[name], 0)]));
  }

  const device = (choice) => table.devices.find((each) => each.key === choice.device);
  const deviceBytes = (choice) => device(choice).memory_gb * 2 ** 30; // vendors count in GiB
  const budgetGb = (choice) => Math.floor((USABLE.device * deviceBytes(choice)) / 1e9);
  const needsTeraio = (choice, said) => said.memory_needed_bytes > budgetGb(choice) * 1e9;

  const speed = (choice, said) => number(choice.tokens_per_step / said.step_seconds);
  const ofIdeal = (said) => percent(said.ideal_step_seconds / said.step_seconds);

  function verdict(choice, said) {
    if (said.unknown) return ["unknown", `Unknown: ${said.unknown}.`];
    if (said.refused) return ["no", `No, it does not fit: ${said.refused.replace(/^no: /, "")}.`];
    if (!needsTeraio(choice, said)) return ["yes", "Yes, it fits into the device memory (predicted). TERAIO is not needed."];
    return ["yes", `Yes, with TERAIO: ${speed(choice, said)} tokens/s, ${ofIdeal(said)} of ideal (predicted).`];
  }

  function how(choice, said) {
    const rows = said.exact ? "from a row of the table" : "interpolated between rows of the table";
    const only = device(choice).is_arm ? " TERAIO does not run on this device: there is no wheel for Arm." : "";
    return `Predicted, ${rows} of ${table.generated}.${only}`;
  }

  function facts(choice, said) {
    const { drive } = table;
    const days = (choice.drives * drive.rated_bytes_written * said.step_seconds) / said.ssd_bytes_written / 86400;
    const cost = device(choice).price;
    return [
      ["Step", seconds(said.step_seconds), `${seconds(said.ideal_step_seconds)} with unlimited memory`],
      ["Tokens per second", speed(choice, said)],
      ["Of ideal", ofIdeal(said)],
      ["Waits for", said.waits_for],
      choice.drives && ["Written per step", bytes(said.ssd_bytes_written), `${bytes(said.ssd_bytes_read)} read from the drives`],
      choice.drives && ["Drives last, 24 h a day", said.ssd_bytes_written ? life(days) : "not worn", `${choice.drives} x ${drive.name}`],
      ["Host memory in use", bytes(said.host_peak_bytes)],
      cost && ["Price", `$${(cost + choice.drives * drive.price).toLocaleString("en-US")}`, "of the device and the drives"],
    ].filter(Boolean);
  }

  function commands(choice, said) {
    if (!needsTeraio(choice, said)) return "teraio suggest train.py\npython train.py";
    const words = ["teraio run --device cuda", `--device-budget ${budgetGb(choice)}GB`];
    if (said.host_peak_bytes) words.push(`--host-limit ${Math.floor(USABLE.host * choice.host_memory_gb)}GB`);
    for (let at = 0; at < choice.drives; ++at) words.push(`--ssd /mnt/nvme${at}`);
    // Without it, a run takes eight times the budget on the drives.
    const tierGb = Math.ceil((1.1 * said.memory_needed_bytes) / 1e9);
    if (choice.drives && tierGb > 8 * budgetGb(choice)) words.push(`--ssd-capacity ${tierGb}GB`);
    return `teraio suggest train.py\n${[...words, "train.py"].join(" ")}`;
  }

  const element = (tag, textContent, attributes) =>
    Object.assign(document.createElement(tag), { textContent, ...attributes });

  function parent(tag, ...children) {
    const made = document.createElement(tag);
    made.append(...children);
    return made;
  }

  function showBars(choice, said) {
    const sizes = [
      [`Memory needed: ${bytes(said.memory_needed_bytes)}`, said.memory_needed_bytes],
      [`Memory of the device: ${device(choice).memory_gb} GiB`, deviceBytes(choice)],
    ];
    const most = Math.max(...sizes.map(([, size]) => size));
    find(".fit-bars").replaceChildren(...sizes.map(([text, size]) => {
      const bar = element("div", text);
      bar.style.setProperty("--share", `${(100 * size) / most}%`);
      return bar;
    }));
  }

  function showFacts(choice, said) {
    find(".fit-facts").replaceChildren(...facts(choice, said).map(([name, value, note]) => {
      const description = parent("dd", value, ...(note ? [element("small", note)] : []));
      return parent("div", element("dt", name), description);
    }));
  }

  function showOthers(choice) {
    const [hosts, drives] = ["host_memory_gb", "drives"].map((axis) => points(rowsOf(choice), axis));
    const heading = (text, scope) => element("th", text, { scope });
    const cell = (said) => element("td", said.step_seconds ? speed(choice, said) : said.refused ? "no" : "?");
    const columns = drives.map((count) => heading(count === 1 ? "1 drive" : `${count} drives`, "col"));
    find("thead").replaceChildren(parent("tr", heading("host memory", "col"), ...columns));
    find("tbody").replaceChildren(...hosts.map((host) => parent("tr", heading(`${host} GB`, "row"),
      ...drives.map((count) => cell(predict({ ...choice, host_memory_gb: host, drives: count }))))));
  }

  function show() {
    const choice = chosen();
    const said = predict(choice);
    const [answer, sentence] = verdict(choice, said);
    form.dataset.answer = answer;
    find("output").textContent = sentence;
    find(".fit-how").textContent = answer === "unknown" ? "" : how(choice, said);
    find(".fit-bars").hidden = answer === "unknown";
    find(".fit-facts").hidden = answer !== "yes";
    find(".fit-commands").hidden = answer !== "yes" || device(choice).is_arm;
    if (answer !== "unknown") showBars(choice, said);
    if (answer === "yes") {
      showFacts(choice, said);
      find("code").textContent = commands(choice, said);
    }
    showOthers(choice);
    find("[role=status]").textContent = "";
  }

  function chosen() {
    const given = Object.fromEntries(new FormData(form));
    for (const axis of AXES) given[axis] = given[axis] === "" ? NaN : Number(given[axis]);
    return given;
  }

  // Offers in each list what occurs in the table with the choices before it, and keeps what it can.
  function offer(wanted) {
    KINDS.forEach((kind, at) => {
      const offered = values(rowsOf(chosen(), KINDS.slice(0, at)), kind);
      form[kind].replaceChildren(...offered.map((key) => element("option", named(kind, key), { value: key })));
      form[kind].value = offered.includes(wanted[kind]) ? wanted[kind] : offered[0];
    });
    const some = rowsOf(chosen());
    const fitting = some.filter((row) => row.step_seconds !== null);
    const usual = fitting[fitting.length >> 1] ?? some[0];
    for (const axis of AXES) {
      const all = points(some, axis);
      find(`#fit-${axis}`).replaceChildren(...all.map((value) => element("option", "", { value })));
      find(`#fit-range-${axis}`).textContent = `The table has ${range(all)}.`;
      form[axis].value = wanted[axis] ?? usual[axis];
    }
  }

  const link = () => `#${new URLSearchParams(new FormData(form))}`;

  // Restores the choice of the address; a fragment of a heading has none.
  function restore() {
    const wanted = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    if (location.hash && !wanted.model) return;
    offer(wanted);
    show();
    if (KINDS.some((kind) => wanted[kind] && wanted[kind] !== form[kind].value))
      find("[role=status]").textContent = "The table does not have what the link names; this is another choice.";
  }

  form.addEventListener("input", (event) => {
    if (KINDS.includes(event.target.name)) {
      const { model, training, device } = chosen();
      offer(chosen());
      if (predict(chosen()).unknown) offer({ model, training, device });
    }
    show();
    history.replaceState(null, "", link());
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  find(".fit-link").addEventListener("click", async () => {
    history.replaceState(null, "", link());
    const copied = navigator.clipboard && (await navigator.clipboard.writeText(location.href).then(() => true, () => false));
    find("[role=status]").textContent = copied ? "Copied." : "Copy it from the address bar.";
  });
  addEventListener("hashchange", restore);
  document.getElementById("fit-fallback").hidden = true;
  form.hidden = false;
  offer({});
  show();
  restore();
})();
