"use strict";
// The script of a report: it computes and draws the curves, sorts tables, and shows transfer.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const data = read("data"), charts = {}, unpacked = new Map();
  const byId = (id) => document.getElementById(id);
  const state = { mode: "absolute", compared: data.baseline, kind: "returns", smooth: false,
    bands: document.getElementById("bands").checked, visible: data.curves.map((curve) => curve.on) };
  const OPTIMUM = "\u0000optimum";
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

  // The numbers to compare a curve with: those of the same run, or of a run with the same sizes.
  function comparedWith(curve, view) {
    const run = data.runs[curve.run];
    if (state.compared === OPTIMUM) return values(run[view][state.kind]);
    const fits = (other) => other.agent === state.compared && (other.run === curve.run ||
      (data.runs[other.run].repetitions === run.repetitions &&
       data.runs[other.run][view].last.length === run[view].last.length));
    const found = data.curves.find((other) => fits(other) && other.run === curve.run) ||
      data.curves.find(fits);
    return found ? values(found.values[view][state.kind]) : null;
  }

  function movingAverage(row, window) {
    const out = new Float64Array(row.length);
    let sum = 0;
    for (let i = 0; i < row.length; i++) {
      sum += row[i];
      if (i >= window) sum -= row[i - window];
      out[i] = sum / Math.min(i + 1, window);
    }
    return out;
  }

  // Mean and half the width of the 95 % interval at each point, over the repetitions that exist.
  function summary(i, view) {
    const curve = data.curves[i], run = data.runs[curve.run], n = run[view].last.length;
    const own = values(curve.values[view][state.kind]);
    const other = state.mode === "absolute" ? null : comparedWith(curve, view);
    if (own === null || (state.mode !== "absolute" && other === null)) return null;
    let rows = [];
    for (let j = 0; j < run.repetitions; j++) {
      let row = own.slice(j * n, (j + 1) * n);
      if (row.every(Number.isNaN)) continue;
      if (other) {
        const base = other.slice(j * n, (j + 1) * n);
        if (base.every(Number.isNaN)) continue;
        row = row.map((x, k) => state.mode === "difference" ? x - base[k] :
          base[k] === 0 ? NaN : x / base[k]);
      }
      rows.push(state.smooth ? movingAverage(row, Math.max(2, Math.round(n / 20))) : row);
    }
    const mean = new Array(n), half = new Array(n), m = rows.length;
    for (let k = 0; k < n; k++) {
      let sum = 0, squares = 0;
      for (const row of rows) sum += row[k];
      mean[k] = m ? sum / m : NaN;
      for (const row of rows) squares += (row[k] - mean[k]) ** 2;
      // No interval for few repetitions, or if all are equal: the same rule as in stats.py.
      const column = rows.map((row) => row[k]), size = Math.max(...column.map(Math.abs));
      const varied = Math.max(...column) - Math.min(...column) > 1e-12 * size;
      half[k] = m > 2 && varied ? data.quantiles[m] * Math.sqrt(squares / (m - 1) / m) : NaN;
    }
    const first = run[view].first, last = run[view].last;
    return { mean, half, x: last.map((b, k) => (first[k] + b) / 2),
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

  const choices = () => [state.mode, state.compared, state.kind, state.smooth].join("\n");

  function draw() {
    for (const view of VIEWS) {
      const { chart, source, drawn } = charts[view];
      // Ranges need at least one curve, so the hidden ones count if none is visible.
      chart.x_range.only_visible = chart.y_range.only_visible = state.visible.some(Boolean);
      data.curves.forEach((_, i) => {
        const isNew = state.visible[i] && drawn[i] !== choices();
        const found = isNew ? summary(i, view) : null;
        if (isNew) drawn[i] = choices();
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
      const found = state.visible[i] ? summary(i, view) : null;
      if (found === null) return;
      drawn[i] = choices();
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
      .filter((i) => state.visible[i] && summary(i, view) !== null);
    const found = shown.map((i) => summary(i, view));
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
    const compared = byId("compared"), names = [...new Set(data.curves.map((c) => c.agent))];
    for (const name of names) compared.append(element("option", { value: name, text: name }));
    if (data.runs.some((run) => values(run.tasks.returns)?.some(Number.isFinite))) {
      compared.append(element("option", { value: OPTIMUM, text: "the optimum" }));
    }
    compared.value = state.compared;
    if (!data.curves.some((c) => c.values.tasks.discounted_returns)) byId("kind").parentElement.remove();
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
        const key = (row) => row.cells[column].dataset.value;
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
      const entry = data.transfer[agent.value], before = repetition.value;
      const options = entry.repetitions.map((r, j) => element("option", { value: j, text: r }));
      const kept = entry.left_out ? `mean of the first ${options.length}` : "mean of all";
      repetition.replaceChildren(element("option", { value: "mean", text: kept }), ...options);
      if ([...repetition.options].some((o) => o.value === before)) repetition.value = before;
      showTransfer(entry, repetition.value);
    };
    agent.addEventListener("change", choose);
    repetition.addEventListener("change", () => showTransfer(data.transfer[agent.value], repetition.value));
    const busy = data.transfer.findIndex((e) => e.bound_pairs.some((r) => r.some((t) => t.slice(1).some((n) => n > 0))));
    agent.value = Math.max(0, busy);
    choose();
  }

  function showTransfer(entry, chosen) {
    const picked = chosen === "mean" ? entry.repetitions.map((_, j) => j) : [Number(chosen)];
    const mean = (get) => picked.reduce((sum, j) => sum + get(j), 0) / picked.length;
    const count = (n) => Number.isInteger(n) ? n.toLocaleString("en") : n.toFixed(1);
    const used = data.kinds.map((_, k) => k)
      .filter((k) => entry.bound_pairs.some((r) => r.some((t) => t[k] > 0)));
    byId("transfer-key").replaceChildren(...used.map((k) =>
      element("span", {}, element("i", { class: `k${k}` }), data.kinds[k])));
    const rows = entry.bound_pairs[0].map((_, task) => {
      const pairs = data.kinds.map((_, k) => mean((j) => entry.bound_pairs[j][task][k]));
      const total = pairs.reduce((a, b) => a + b, 0) || 1, sources = new Map();
      for (const j of picked) entry.source_task[j][task].forEach((source, rank) => {
        if (source > 0) sources.set(source, (sources.get(source) || 0) + entry.source_pairs[j][task][rank] / picked.length);
      });
      const named = [...sources].sort((a, b) => b[1] - a[1]).slice(0, 5)
        .map(([source, n]) => `task ${source}: ${count(n)}`).join(", ");
      const described = used.map((k) => `${data.kinds[k]}: ${count(pairs[k])} ${pairs[k] === 1 ? "pair" : "pairs"}`).join("; ");
      const bar = element("div", { class: "bar", role: "img", "aria-label": described, title: described },
        ...used.map((k) => element("i", { class: `k${k}`, style: `width:${100 * pairs[k] / total}%` })));
      return element("tr", {}, element("th", { scope: "row", text: task + 1 }), element("td", {}, bar),
        element("td", { text: named || "–" }),
        ...used.map((k) => element("td", { text: count(pairs[k]) })),
        element("td", { text: count(mean((j) => entry.dropped_sources[j][task])) }),
        element("td", { text: count(mean((j) => entry.refutations[j][task])) }));
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
    window.heirloomReport = { data, state, summary, charts };
    document.documentElement.dataset.ready = "true";
  }

  start().catch((error) => {
    byId("explanation").textContent = `The charts could not be drawn: ${error}`;
    throw error;
  });
})();
