"use strict";
// Draws the charts from the JSON in the page, in the reader's colours, and zooms those of one step
// together.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isTouch = matchMedia("(pointer: coarse)").matches;
  const isNarrow = matchMedia("(max-width: 40rem)");
  const charts = [...document.querySelectorAll(".chart")];
  const timed = (chart) => chart.hasAttribute("data-time");
  const drawn = new Map(); // chart element -> its first range of the x axis

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axesOf = (layout) => Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key));

  // The settings that follow the reader's colour scheme, as changes of a layout.
  function colors(layout) {
    const changes = {
      "font.color": color("--text"), "hoverlabel.bgcolor": color("--panel"),
      "hoverlabel.font.color": color("--text"), "hoverlabel.bordercolor": color("--line"),
    };
    for (const axis of axesOf(layout)) {
      changes[axis + ".gridcolor"] = changes[axis + ".linecolor"] = color("--line");
      changes[axis + ".zerolinecolor"] = color("--line");
    }
    return changes;
  }

  function adapt(layout) {
    layout.dragmode = isTouch ? false : "zoom";
    layout.font = { family: "inherit", size: 13 };
    layout.legend.font = { size: 13 };
    if (isNarrow.matches) {
      layout.margin.l = 52;
      layout.font.size = layout.legend.font.size = 11;
      for (const axis of axesOf(layout)) layout[axis].title = { text: "" };
      if (layout.meta) layout.yaxis.showticklabels = false;
    }
    return layout;
  }

  // The x axis that the others of the figure follow.
  const mainAxis = (chart) => chart.layout.xaxis3 ? "xaxis3" : "xaxis";

  function draw(chart) {
    const name = chart.id.replace("chart-", "");
    const figure = JSON.parse(document.getElementById("data-" + name).textContent);
    Plotly.newPlot(chart, figure.data, adapt(figure.layout), { displayModeBar: false, responsive: true });
    Plotly.relayout(chart, colors(chart.layout));
    drawn.set(chart, [...chart.layout[mainAxis(chart)].range]);
    chart.on("plotly_relayout", (changes) => follow(chart, changes));
    if (chart.layout.meta) tellPlaces(chart);
  }

  function setRange(chart, range) {
    const change = {};
    for (const axis of axesOf(chart.layout).filter((key) => key.startsWith("x"))) change[axis + ".range"] = [...range];
    return Plotly.relayout(chart, change);
  }

  // When the range of one chart of the step changes, the others take it.
  let isFollowing = false;
  async function follow(chart, changes) {
    if (isFollowing || !timed(chart) || !Object.keys(changes).some((key) => key.startsWith("xaxis"))) return;
    isFollowing = true;
    try {
      const range = chart.layout[mainAxis(chart)].range;
      for (const other of drawn.keys()) if (other !== chart && timed(other)) await setRange(other, range);
    } finally {
      isFollowing = false;
    }
  }

  function zoomed([start, end], how, all) {
    const width = end - start;
    if (how === "all") return all;
    if (how === "in") return [start + width / 4, end - width / 4];
    if (how === "out") return [start - width / 2, end + width / 2];
    const shift = how === "left" ? -width / 2 : width / 2;
    return [start + shift, end + shift];
  }

  for (const tools of document.querySelectorAll(".tools"))
    tools.addEventListener("click", (event) => {
      const how = event.target.dataset.zoom;
      const chart = document.getElementById("chart-" + tools.dataset.for);
      if (!how || !drawn.has(chart)) return;
      if (how === "all") Plotly.relayout(chart, { "yaxis.autorange": chart.layout.meta ? "reversed" : true });
      setRange(chart, zoomed(chart.layout[mainAxis(chart)].range, how, drawn.get(chart)));
    });

  const sizeText = (bytes) => {
    const unit = Math.min(5, Math.max(0, Math.floor(Math.log10(bytes) / 3)));
    return (bytes / 1000 ** unit).toPrecision(3) + " " + ["B", "kB", "MB", "GB", "TB", "PB"][unit];
  };

  const timeText = (seconds) => {
    const unit = [["s", 1], ["ms", 1e-3], ["µs", 1e-6]].find(([, size]) => seconds >= size) || ["ns", 1e-9];
    return (seconds / unit[1]).toPrecision(3) + " " + unit[0];
  };

  // What a row of the chart of places tells at a time.
  function placeText(meta, row, place, time) {
    const tensor = meta.rows[row];
    let next = tensor.uses.findIndex((use) => use >= time);
    let wait = next < 0 ? tensor.uses[0] + meta.step - time : tensor.uses[next] - time;
    if (next < 0) next = 0;
    const use = tensor.uses.length ? ` Next use in ${timeText(wait)}: ${meta.ops[tensor.ops[next]]}.` : " No op uses it.";
    return `${tensor.name} (${tensor.kind}, ${sizeText(tensor.bytes)}), module ${tensor.module || "not known"}. ` +
      `At ${timeText(time)}: ${meta.places[place]}.${use}`;
  }

  function tellPlaces(chart) {
    const details = document.getElementById("place-details");
    chart.on("plotly_hover", ({ points: [point], event }) => {
      const axis = chart._fullLayout.xaxis;
      const time = event ? axis.p2d(event.clientX - chart.getBoundingClientRect().left - axis._offset) : point.x;
      details.textContent = placeText(chart.layout.meta, point.pointNumber[0], point.z, Math.max(0, time));
    });
  }

  // Charts below the screen wait until they come near, so that a large page opens at once.
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries)
      if (entry.isIntersecting) {
        near.unobserve(entry.target);
        draw(entry.target);
      }
  }, { rootMargin: "400px" });
  for (const chart of charts) near.observe(chart);

  dark.addEventListener("change", () => {
    for (const chart of drawn.keys()) Plotly.relayout(chart, colors(chart.layout));
  });
})();
