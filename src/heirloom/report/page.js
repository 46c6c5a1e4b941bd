"use strict";
// The script of a report: it draws the curves, sorts tables, and shows transfer.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const data = read("data"), charts = {}, unpacked = new Map();
  const byId = (id) => document.getElementById(id);
  const state = { mode: "absolute", compared: data.baseline, kind: "returns", smooth: false,
    bands: document.getElementById("bands").checked, visible: data.curves.map((curve) => curve.on) };
  const OPTIMUM = "\u0000optimum";  // OPTIMUM of charts.py
  const VIEWS = ["tasks", "episodes"];

  // Text is always set as text, so that no name is taken for markup.
  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [key, value] of Object.entries(properties)) {
      if (key === "text") made.textContent = value; else made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
  }

  function format(x, digits = 4) {
    if (x === null || !Number.isFinite(x)) return "–";
    if (x === 0) return "0";
    const size = Math.abs(x);
    if (size >= 10 ** (digits + 2) || size < 1e-4) return x.toExponential(digits - 1);
    return x.toFixed(Math.min(digits, Math.max(0, digits - 1 - Math.floor(Math.log10(size))))).replace("-", "\u2212");
  }

  // Half the width of an interval has two significant digits, and the mean as many decimals.
  function withInterval(mean, half) {
    if (!Number.isFinite(mean) || !Number.isFinite(half)) return format(mean);
    if (half <= 1e-9 * Math.max(1, Math.abs(mean))) return `${format(mean)} ± 0`;
    const decimals = Math.min(6, Math.max(0, 1 - Math.floor(Math.log10(half))));
    return `${mean.toFixed(decimals).replace("-", "\u2212")} ± ${half.toFixed(decimals)}`;
  }

  function values(packed) {
    if (packed === undefined) return null;
    if (!unpacked.has(packed)) {
      const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
      const view = new DataView(bytes.buffer), numbers = new Float64Array(bytes.length / 8);
      for (let i = 0; i < numbers.length; i++) numbers[i] = view.getFloat64(8 * i, true);
      unpacked.set(packed, numbers);
    }
    return unpacked.get(packed);
  }

  // What is shown, as the key of the lines that Python computed.
  const shown = () => [state.mode, state.mode === "absolute" ? "" : state.compared, state.kind,
    state.smooth ? "smooth" : ""].join("\n");

  // Mean and half the width of the 95 % interval at each point of a curve.
  function line(i, view) {
    const curve = data.curves[i], { first, last } = data.runs[curve.run][view], n = last.length;
    const numbers = values(curve.lines[view][shown()]);
    if (numbers === null) return null;
    return { mean: [...numbers.slice(0, n)], half: [...numbers.slice(n)],
      x: last.map((b, k) => (first[k] + b) / 2),
      at: last.map((b, k) => first[k] === b ? `${b}` : `${first[k]} to ${b}`) };
  }

  // The columns of the three data sources of a curve: of its line, its markers and its band.
  function columns(i, found) {
    const { x, mean, half, at } = found, label = x.map(() => data.curves[i].label);
    const width = half.map((h) => Number.isFinite(h) ? h : 0);
    const banded = x.map((_, k) => k).filter((k) => Number.isFinite(mean[k]));
    const stride = x.length <= 40 ? 1 : Math.ceil(x.length / 9);
    const offset = stride === 1 ? 0 : Math.floor(i * stride / 7) % stride;
    const marked = x.map((_, k) => k).filter((k) => k % stride === offset);
    const pick = (list) => marked.map((k) => list[k]);
    return {
      points: { x, mean, half, label, at },
      marks: { x: pick(x), mean: pick(mean), half: pick(half), label: pick(label), at: pick(at) },
      band: { x: banded.map((k) => x[k]), low: banded.map((k) => mean[k] - width[k]),
        high: banded.map((k) => mean[k] + width[k]) },
    };
  }

  function draw() {
    for (const view of VIEWS) {
      const { chart, source, drawn } = charts[view];
      // Ranges need at least one curve, so the hidden ones count if none is visible.
      chart.x_range.only_visible = chart.y_range.only_visible = state.visible.some(Boolean);
      data.curves.forEach((_, i) => {
        const isNew = state.visible[i] && drawn[i] !== shown();
        const found = isNew ? line(i, view) : null;
        if (isNew) drawn[i] = shown();
        if (isNew) charts[view].exists[i] = found !== null;
        if (found !== null) {
          for (const [part, values] of Object.entries(columns(i, found))) source(i, part).data = values;
        }
        const visible = state.visible[i] && charts[view].exists[i];
        chart.renderers.slice(3 * i, 3 * i + 3).forEach((part, k) => {
          part.visible = visible && (k > 0 || state.bands);
        });
      });
      const level = charts[view].level;
      level.visible = state.mode !== "absolute";
      level.location = state.mode === "ratio" ? 1 : 0;
      chart.left[0].axis_label = axisLabel();
    }
    byId("explanation").textContent = explanation();
    document.querySelectorAll("details.numbers[open]").forEach(showNumbers);
  }

  // Put the points of the visible curves into a chart before Bokeh draws it for the first time.
  function fill(view, item, drawn, exists) {
    (function walk(value) {
      if (value === null || typeof value !== "object") return;
      const name = value.name === "ColumnDataSource" ? value.attributes?.name : undefined;
      if (name === undefined) return Object.values(value).forEach(walk);
      const [, index, part] = name.split("-"), i = Number(index);
      const found = state.visible[i] ? line(i, view) : null;
      if (found === null) return;
      drawn[i] = shown();
      exists[i] = true;
      value.attributes.data = { type: "map", entries: Object.entries(columns(i, found)[part]) };
    })(item.doc);
  }

  function comparedName() {
    return state.compared === OPTIMUM ? "the optimal return" : `the return of ${state.compared}`;
  }

  function axisLabel() {
    const kind = state.kind === "returns" ? "return" : "discounted return";
    if (state.mode === "absolute") return `mean ${kind}`;
    return state.mode === "ratio" ? `${kind}, ratio` : `${kind}, difference`;
  }

  function explanation() {
    const parts = [];
    if (state.mode === "difference") parts.push(`Difference from ${comparedName()}, repetition by repetition.`);
    if (state.mode === "ratio") parts.push(`Ratio to ${comparedName()}, repetition by repetition; a point is left out where that return is 0.`);
    if (state.smooth) parts.push("Smoothed by a moving average over a twentieth of the points.");
    const last = data.runs[0].episodes.last;
    if (last.length > 1 && last[1] - last[0] > 1) parts.push(`Each point over episodes is the mean of about ${last[1] - last[0]} episodes, over all tasks.`);
    return parts.join(" ");
  }

  function showNumbers(details) {
    const view = details.dataset.view, shown = data.curves.map((_, i) => i)
      .filter((i) => state.visible[i] && line(i, view) !== null);
    const found = shown.map((i) => line(i, view));
    const longest = found.reduce((a, b) => (a && a.x.length >= b.x.length ? a : b), null);
    const head = element("tr", {}, element("th", { scope: "col", text: view.slice(0, -1) }),
      ...shown.map((i) => element("th", { scope: "col", text: data.curves[i].label })));
    const rows = (longest ? longest.at : []).map((at, k) => element("tr", {},
      element("th", { scope: "row", text: at }), ...found.map((f) => element("td", {
        text: k < f.mean.length ? withInterval(f.mean[k], f.half[k]) : "–" }))));
    const region = element("div", { class: "scroll", tabindex: "0", role: "region",
      "aria-label": "The numbers of the chart" },
      element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
    details.querySelector("div").replaceChildren(region);
  }

  function isDark() { return document.documentElement.dataset.appearance === "dark"; }

  function setAppearance(dark) {
    const root = document.documentElement.dataset;
    root.appearance = root.theme = dark ? "dark" : "light";  // `theme` is that of the replay
    byId("appearance").textContent = dark ? "Light" : "Dark";
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    for (const view of VIEWS) {
      if (!charts[view]) continue;
      const { chart, level } = charts[view];
      for (const axis of [...chart.below, ...chart.left]) {
        axis.axis_label_text_color = axis.major_label_text_color = colour("--axis");
        axis.axis_line_color = axis.major_tick_line_color = colour("--line");
        axis.minor_tick_line_color = null;
      }
      chart.center.forEach((grid) => { if ("grid_line_color" in grid) grid.grid_line_color = colour("--grid"); });
      level.line_color = colour("--soft");
      if (charts[view].dark === dark) continue;
      charts[view].dark = dark;
      data.curves.forEach((curve, i) => {
        const own = dark ? curve.dark : curve.light;
        const [band, line, marks] = chart.renderers.slice(3 * i, 3 * i + 3);
        band.glyph.fill_color = own;
        line.glyph.line_color = own;
        marks.glyph.line_color = own;
        if (marks.glyph.fill_color !== null && marks.glyph.fill_color.value !== null) marks.glyph.fill_color = own;
      });
    }
  }

  function setUpControls() {
    const compared = byId("compared");
    for (const name of data.references) {
      compared.append(element("option", { value: name, text: name === OPTIMUM ? "the optimum" : name }));
    }
    compared.value = state.compared;
    const discounted = "absolute\n\ndiscounted_returns\n";
    if (!data.curves.some((c) => c.lines.tasks[discounted])) byId("kind").parentElement.remove();
    const show = () => {
      byId("reference-label").hidden = state.mode === "absolute";
      byId("reference-label").style.display = state.mode === "absolute" ? "none" : "";
      draw();
    };
    for (const key of ["mode", "compared", "kind"]) {
      byId(key)?.addEventListener("change", (event) => { state[key] = event.target.value; show(); });
    }
    for (const key of ["smooth", "bands"]) {
      byId(key).checked = state[key];
      byId(key).addEventListener("change", (event) => { state[key] = event.target.checked; show(); });
    }
    const buttons = [...document.querySelectorAll("button.curve")];
    const press = () => {
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", state.visible[i]));
      draw();
    };
    buttons.forEach((button, i) => button.addEventListener("click", () => {
      state.visible[i] = !state.visible[i];
      press();
    }));
    byId("all").addEventListener("click", () => { state.visible.fill(true); press(); });
    byId("none").addEventListener("click", () => { state.visible.fill(false); press(); });
    document.querySelectorAll("details.numbers").forEach((details) =>
      details.addEventListener("toggle", () => { if (details.open) showNumbers(details); }));
    byId("appearance").addEventListener("click", () => setAppearance(!isDark()));
    show();
    press();
  }

  function setUpTables() {
    document.querySelectorAll("table.sortable").forEach((table) => {
      const heads = [...table.tHead.rows[0].cells];
      heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
        const falling = head.getAttribute("aria-sort") !== "descending" && column > 0 ||
          head.getAttribute("aria-sort") === "ascending" && column === 0;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const key = (row) => row.cells[column].querySelector("data").value;
        const compare = (a, b) => column === 0 ? key(a).localeCompare(key(b)) : key(a) - key(b);
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => {
          if (key(a) === "" || key(b) === "") return (key(a) === "") - (key(b) === "");
          return falling ? compare(b, a) : compare(a, b);
        });
        table.tBodies[0].append(...rows);
      }));
    });
  }

  function setUpTransfer() {
    const agent = byId("transfer-agent"), repetition = byId("transfer-repetition");
    if (!agent) return;
    const choose = () => {
      const { choices } = data.transfer[agent.value], before = repetition.value;
      repetition.replaceChildren(...choices.map((c) => element("option", { value: c.name, text: c.name })));
      repetition.value = choices.some((c) => c.name === before) ? before : choices[0].name;
      show();
    };
    const show = () => {
      const { choices } = data.transfer[agent.value];
      const used = data.kinds.map((_, k) => k).filter((k) => choices[0].tasks.some((t) => t.pairs[k] > 0));
      showTransfer(choices.find((c) => c.name === repetition.value).tasks, used);
    };
    agent.addEventListener("change", choose);
    repetition.addEventListener("change", show);
    const busy = data.transfer.findIndex((e) => e.choices[0].tasks.some((t) => t.pairs.slice(1).some((n) => n > 0)));
    agent.value = Math.max(0, busy);
    choose();
  }

  function showTransfer(tasks, used) {
    const count = (n) => Number.isInteger(n) ? n.toLocaleString("en") : n.toFixed(1);
    byId("transfer-key").replaceChildren(...used.map((k) =>
      element("span", {}, element("i", { class: `k${k}` }), data.kinds[k])));
    const rows = tasks.map(({ pairs, sources, dropped, refuted }, task) => {
      const total = pairs.reduce((a, b) => a + b, 0) || 1;
      const named = sources.map(([source, n]) => `task ${source}: ${count(n)}`).join(", ");
      const described = used.map((k) => `${data.kinds[k]}: ${count(pairs[k])} ${pairs[k] === 1 ? "pair" : "pairs"}`).join("; ");
      const bar = element("div", { class: "bar", role: "img", "aria-label": described, title: described },
        ...used.map((k) => element("i", { class: `k${k}`, style: `width:${100 * pairs[k] / total}%` })));
      return element("tr", {}, element("th", { scope: "row", text: task + 1 }), element("td", {}, bar),
        element("td", { text: named || "–" }),
        ...used.map((k) => element("td", { text: count(pairs[k]) })),
        element("td", { text: count(dropped) }), element("td", { text: count(refuted) }));
    });
    const titles = ["Task", "Pairs, by what decided their bound", "Sources that decided most pairs",
      ...used.map((k) => data.kinds[k]), "Dropped sources", "Refutations"];
    byId("transfer-table").replaceChildren(element("div", { class: "scroll", tabindex: "0", role: "region",
      "aria-label": "Where transfer came from" }, element("table", {},
      element("thead", {}, element("tr", {}, ...titles.map((t) => element("th", { scope: "col", text: t })))),
      element("tbody", {}, ...rows))));
  }

  async function start() {
    for (const link of document.querySelectorAll("nav a")) {
      if (!document.querySelector(link.getAttribute("href"))) link.remove();
    }
    setAppearance(matchMedia("(prefers-color-scheme: dark)").matches);
    setUpTables();
    setUpTransfer();
    const items = read("charts");
    for (const view of VIEWS) {
      const drawn = [], exists = data.curves.map(() => false);
      fill(view, items[view], drawn, exists);
      await Bokeh.embed.embed_item(items[view]);
      const document_ = Bokeh.documents.find((d) => d.get_model_by_name(view) !== null);
      charts[view] = { drawn, exists, dark: false, chart: document_.get_model_by_name(view),
        level: document_.get_model_by_name(`${view}-level`),
        source: (i, part) => document_.get_model_by_name(`${view}-${i}-${part}`) };
      const small = matchMedia("(max-width: 640px)").matches;
      charts[view].chart.height = small ? 300 : 380;
      charts[view].chart.below[0].ticker.min_interval = 1;
    }
    setAppearance(isDark());
    setUpControls();
    let before = null;
    const showTools = (visible) => VIEWS.forEach((view) => { charts[view].chart.toolbar.visible = visible; });
    addEventListener("beforeprint", () => { before = isDark(); setAppearance(false); showTools(false); });
    addEventListener("afterprint", () => { setAppearance(before); showTools(true); });
    window.heirloomReport = { data, state, charts };
    document.documentElement.dataset.ready = "true";
  }

  start().catch((error) => {
    byId("explanation").textContent = `The charts could not be drawn: ${error}`;
    throw error;
  });
})();
