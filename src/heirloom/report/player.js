// The player of recorded learning: a map with the agent's steps and layers of what it knew.
// It reads one block of data from its section, and needs nothing else.
(() => {
  "use strict";
  const section = document.currentScript.closest(".hlr");
  const STEPS_PER_SECOND = 4;
  const SPEEDS = [0.5, 1, 2, 4, 8, 16];
  const SCALE = ["#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#fde725"];
  const SOURCES = ["#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#d55e00", "#f0e442", "#0072b2", "#8c564b",
    "#9467bd", "#17becf", "#bcbd22", "#aec7e8", "#98df8a", "#ff9896", "#c5b0d5", "#c49c94",
    "#f7b6d2", "#dbdb8d", "#9edae5", "#393b79"];
  const PANELS = ["#0072b2", "#d55e00"];
  const LAYERS = [["Q", "values"], ["U", "bounds"], ["decided", "deciding source"], ["known", "known pairs"],
    ["none", "map only"]];

  const element = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") node.className = value;
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  };
  const ICONS = {
    play: "M6 4l14 8-14 8z", pause: "M6 4h4v16H6zM14 4h4v16h-4z", back: "M18 4v16L6 12z", forward: "M6 4l12 8-12 8z",
    previous: "M5 4h3v16H5zM20 4v16L9 12z", next: "M16 4h3v16h-3zM4 4l11 8-11 8z",
  };
  const icon = (name) => {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    for (const [key, value] of [["viewBox", "0 0 24 24"], ["aria-hidden", "true"], ["class", "hlr-icon"]]) svg.setAttribute(key, value);
    path.setAttribute("d", ICONS[name]);
    svg.append(path);
    return svg;
  };
  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const STOPS = SCALE.map(rgb);
  const SHADES = Array.from({ length: 128 }, (_, shade) => {
    const at = (shade / 128) * (STOPS.length - 1), i = Math.floor(at);
    return `rgb(${STOPS[i].map((c, k) => Math.round(c + (at - i) * (STOPS[i + 1][k] - c))).join(",")})`;
  });
  const scaled = (x) => SHADES[Math.min(127, Math.max(0, Math.floor(x * 128)))];
  const number = (x) => (Number.isFinite(x) ? String(Number(x.toPrecision(4))) : x === -Infinity ? "–" : "∞");
  // JSON has no infinities: null stands for infinity, and false for minus infinity, of an action that does not exist.
  const read = (value) => (value === null ? Infinity : value === false ? -Infinity : value);
  const count = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

  // One recording, with the knowledge of the agent at the snapshot that was asked for last.
  class Recording {
    constructor(data, scene) {
      Object.assign(this, data);
      this.scene = scene;
      this.pairs = this.S * this.A;
      this.at = -1;
      this.index = new Map(this.episodes.map((number, i) => [number, i]));
      this.layers = {};
      for (const name of Object.keys(this.changes)) this.layers[name] = new Float64Array(this.pairs);
      this.means = this.snapshotSteps.map((_, i) => {
        this.seek(i);
        const Q = this.layers.Q;
        const finite = Q ? Q.filter(Number.isFinite) : [];
        return finite.length ? finite.reduce((sum, q) => sum + q, 0) / finite.length : NaN;
      });
      this.range = this.valueRange();
    }

    seek(snapshot) {
      if (snapshot === this.at) return;
      for (const [name, { ends, pairs, values }] of Object.entries(this.changes)) {
        const array = this.layers[name];
        if (snapshot < this.at) array.fill(0);
        const from = snapshot < this.at || this.at < 0 ? 0 : ends[this.at];
        for (let j = from; j < ends[snapshot]; j++) array[pairs[j]] = read(values[j]);
      }
      this.at = snapshot;
    }

    valueRange() {
      let low = Infinity, high = -Infinity;
      const distinct = new Set();
      for (const name of ["Q", "U"]) {
        for (const value of this.changes[name]?.values ?? []) {
          if (typeof value !== "number") continue;
          if (value < low) low = value;
          if (value > high) high = value;
          distinct.add(Number(value.toPrecision(3)));
        }
      }
      this.distinct = [...distinct];
      return [low, high];
    }

    // The frame of a step of an episode; the last one before it if it was not recorded.
    frame(episode, step) {
      let i = this.index.get(episode);
      if (i === undefined) {
        i = this.episodes.findLastIndex((number) => number < episode);
        if (i < 0) return { at: 0, episode: 0, step: 0, last: 0, absent: true };
        step = Infinity;
      }
      const last = this.starts[i + 1] - this.starts[i] - 1;
      const at = this.starts[i] + Math.min(step, last);
      return { at, episode: i, step: Math.min(step, last), last, absent: step === Infinity };
    }

    steps(frame) {
      return this.firstSteps[frame.episode] + frame.step;
    }

    known(step) {
      let low = 0, high = this.updateSteps.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.updateSteps[middle] <= step) low = middle + 1; else high = middle;
      }
      return low;
    }

    state(s) {
      if (this.scene.kind === "grid" && !this.stateNames) {
        const [row, column] = this.scene.positions[s], { slices, sliceNames } = this.scene;
        return `(${row + 1}, ${column + 1})${slices ? `, ${sliceNames[slices[s]]}` : ""}`;
      }
      return this.stateNames ? this.stateNames[s] : String(s);
    }

    // What decides Q at a pair: the learned model, or what decides the bound U.
    source(pair) {
      const { Q, U, known, decided } = this.layers;
      if (known && known[pair] && Q[pair] < U[pair] - 1e-6 * Math.max(1, Math.abs(U[pair]))) return -1;
      return decided ? decided[pair] : 0;
    }

    // The value of an action that is not available is not finite.
    exists(pair) {
      return !this.layers.Q || Number.isFinite(this.layers.Q[pair]);
    }

    sourceName(code) {
      return code < 0 ? "learned model" : this.deciders[code] ?? "values";
    }

    greedy(s) {
      const Q = this.layers.Q;
      if (!Q) return [];
      let best = -Infinity;
      for (let k = s * this.A; k < (s + 1) * this.A; k++) best = Math.max(best, Q[k]);
      const least = best - 1e-5 * Math.max(1, Math.abs(best)), found = [];
      for (let a = 0; a < this.A; a++) if (Q[s * this.A + a] >= least) found.push(a);
      return found;
    }
  }

  // One agent: its map or its table, its numbers, and the values of the state that it is in.
  class Panel {
    constructor(player, slot) {
      this.player = player;
      this.slot = slot;
      this.canvas = element("canvas", { role: "img", tabindex: "0" });
      this.canvas.addEventListener("mousemove", (event) => this.inspect(event));
      this.canvas.addEventListener("mouseleave", () => { this.inspected = null; this.draw(); });
      this.table = element("div", { class: "hlr-states", tabindex: "0", role: "region", "aria-label": "states" });
      this.title = element("h3");
      this.numbers = element("p", { class: "hlr-numbers" });
      this.here = element("table", { class: "hlr-here" });
      this.certificate = element("p", { class: "hlr-numbers" });
      this.node = element("div", { class: "hlr-panel" }, this.title, this.canvas, this.table, this.numbers, this.here,
        this.certificate);
      this.images = new Map();
    }

    show(recording) {
      this.recording = recording;
      this.node.hidden = !recording;
      if (!recording) return;
      const isGrid = recording.scene.kind === "grid";
      this.canvas.hidden = !isGrid;
      this.table.hidden = isGrid;
      this.title.replaceChildren(element("span", { class: "hlr-dot", style: `background:${PANELS[this.slot]}` }),
        recording.agent, recording.taskName === String(recording.task) ? "" : `, task ${recording.taskName}`);
      this.certificate.replaceChildren(...recording.certificate.map((line, i) =>
        element("span", {}, i ? element("br") : "At the end of the task: ", line)));
      const turns = recording.turns.map((turn) => turn ?? undefined);
      this.turns = turns;
      this.byPair = isGrid && turns.every((turn) => turn !== undefined);
      this.picture = null;
      const source = recording.scene.picture;
      if (isGrid && source) {
        const image = new Image();
        image.onload = () => { this.picture = image; this.base = ""; this.draw(); };
        image.src = source;
      }
      this.base = "";
      if (!isGrid) this.buildTable();
    }

    inspect(event) {
      const box = this.canvas.getBoundingClientRect();
      const { rows, columns } = this.recording.scene;
      const row = Math.floor(((event.clientY - box.top) / box.height) * rows);
      const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
      const s = this.stateAt(row, column);
      if (s !== this.inspected) { this.inspected = s; this.draw(); }
    }

    // The state of a cell; where several states share a cell, the one in the slice of the current state.
    stateAt(row, column) {
      const { positions, slices } = this.recording.scene;
      const slice = slices ? slices[this.current()] : 0;
      const s = positions.findIndex(([r, c], i) => r === row && c === column && (!slices || slices[i] === slice));
      return s < 0 ? null : s;
    }

    current() {
      return this.recording.states[this.frame.at];
    }

    draw() {
      const recording = this.recording;
      if (!recording) return;
      const { episode, step } = this.player.position();
      this.frame = recording.frame(episode, step);
      recording.seek(recording.snapshots[this.frame.at]);
      if (recording.scene.kind === "grid") this.drawMap(); else this.drawTable();
      this.describe();
    }

    describe() {
      const recording = this.recording, { layers } = recording, frame = this.frame;
      const known = layers.known ? layers.known.reduce((sum, k) => sum + k, 0) : null;
      let total = 0;
      for (let i = frame.at - frame.step; i < frame.at; i++) total += recording.rewards[i];
      const parts = [];
      const pairs = layers.Q ? layers.Q.reduce((sum, _, k) => sum + recording.exists(k), 0) : recording.pairs;
      if (known !== null) parts.push(`${known} of ${pairs} pairs known`);
      if (layers.Q) parts.push(`mean value ${number(recording.means[recording.at])}`);
      parts.push(`reward so far ${number(total)}`);
      if (frame.absent) parts.push("this episode was not recorded");
      this.numbers.textContent = parts.join(" · ");
      const s = this.inspected ?? this.current();
      const head = ["action", "value", "bound", "from"].filter((_, i) => i < 2 || layers.U);
      const rows = recording.actions.map((name, a) => {
        const k = s * recording.A + a, chosen = this.inspected == null && recording.chosen[frame.at] === a;
        if (!recording.exists(k)) {
          return element("tr", {}, element("th", { scope: "row" }, name),
            element("td", { colspan: head.length - 1 }, "not available"));
        }
        const cells = [layers.Q ? number(layers.Q[k]) : "–"];
        if (layers.U) {
          const code = recording.source(k);
          const chip = element("span", { class: "hlr-chip", style: `background:${this.player.colour(recording, code)}` });
          cells.push(number(layers.U[k]), element("span", {}, chip, recording.sourceName(code)));
        }
        const mark = layers.known && layers.known[k] ? "●" : "○";
        const title = element("th", { scope: "row" }, layers.known ? `${mark} ${name}` : name);
        if (layers.known) title.title = mark === "●" ? "known" : "unknown";
        return element("tr", chosen ? { class: "hlr-chosen" } : {}, title, ...cells.map((c) => element("td", {}, c)));
      });
      this.here.replaceChildren(
        element("caption", {}, `${this.inspected == null ? "At" : "Inspected:"} state ${recording.state(s)}`),
        element("thead", {}, element("tr", {}, ...head.map((h) => element("th", { scope: "col" }, h)))),
        element("tbody", {}, ...rows));
      this.canvas.setAttribute("aria-label",
        `${recording.agent} at state ${recording.state(this.current())}; ${this.numbers.textContent}`);
    }

    drawMap() {
      const { rows, columns } = this.recording.scene, ratio = window.devicePixelRatio || 1;
      const width = Math.min(this.width || 400, columns * 64, Math.max(240, (columns / rows) * 520));
      const cell = Math.floor((width * ratio) / columns);
      if (this.canvas.width !== cell * columns || this.canvas.height !== cell * rows) {
        this.canvas.width = cell * columns;
        this.canvas.height = cell * rows;
        this.canvas.style.width = `${(cell * columns) / ratio}px`;
        this.canvas.style.height = `${(cell * rows) / ratio}px`;
        this.base = "";
      }
      const slice = this.recording.scene.slices?.[this.current()] ?? 0;
      const key = [this.recording.at, this.player.layer, this.player.arrows, this.player.theme, slice].join();
      if (key !== this.base) {
        this.offscreen = element("canvas", { width: this.canvas.width, height: this.canvas.height });
        this.drawBase(this.offscreen.getContext("2d"), cell, slice);
        this.base = key;
      }
      const context = this.canvas.getContext("2d");
      context.clearRect(0, 0, this.canvas.width, this.canvas.height);
      context.drawImage(this.offscreen, 0, 0);
      this.drawAgent(context, cell);
    }

    drawBase(context, cell, slice) {
      const { scene } = this.recording, colours = this.player.colours;
      context.fillStyle = colours.surface;
      context.fillRect(0, 0, context.canvas.width, context.canvas.height);
      if (this.picture) context.drawImage(this.picture, 0, 0, context.canvas.width, context.canvas.height);
      scene.cells.forEach((line, row) => [...line].forEach((symbol, column) => {
        const tint = { "#": colours.wall, X: colours.wall, H: colours.hole, C: colours.hole }[symbol];
        if (tint && !this.picture) { context.fillStyle = tint; context.fillRect(column * cell, row * cell, cell, cell); }
      }));
      context.globalAlpha = this.picture ? 0.6 : 1;
      const shown = scene.positions.map(([row, column], s) => [s, column, row]).filter(([s, column, row]) =>
        (!scene.slices || scene.slices[s] === slice) && scene.cells[row]?.[column] !== "X");
      const areas = new Map();  // one path for each colour, which is much faster than one for each pair
      for (const [s, column, row] of shown) this.addState(areas, s, column * cell, row * cell, cell);
      for (const [colour, path] of areas) { context.fillStyle = colour; context.fill(path); }
      context.globalAlpha = 1;
      context.strokeStyle = colours.line;
      context.lineWidth = 1;
      for (let i = 0; i <= scene.columns; i++) line(context, i * cell, 0, i * cell, context.canvas.height);
      for (let i = 0; i <= scene.rows; i++) line(context, 0, i * cell, context.canvas.width, i * cell);
      context.strokeStyle = colours.text;
      context.lineWidth = Math.max(2, cell / 14);
      for (const [row, column] of scene.walls ?? []) {
        line(context, (column + 1) * cell, row * cell, (column + 1) * cell, (row + 1) * cell);
      }
      this.drawSymbols(context, cell);
      if (!this.player.arrows) return;
      const arrows = new Path2D();
      for (const [s, column, row] of shown) this.addArrows(arrows, s, (column + 0.5) * cell, (row + 0.5) * cell, cell);
      context.lineWidth = Math.max(1, cell / 26);
      context.fillStyle = "#fff";
      context.strokeStyle = "#222";
      context.fill(arrows);
      context.stroke(arrows);
    }

    addState(areas, s, x, y, cell) {
      const { A } = this.recording, { layer } = this.player;
      if (layer === "none" || !this.recording.layers[layer]) return;
      const area = (colour) => {
        if (!areas.has(colour)) areas.set(colour, new Path2D());
        return areas.get(colour);
      };
      if (!this.byPair) {
        area(this.fill(s * A + (this.recording.greedy(s)[0] ?? 0), s)).rect(x, y, cell, cell);
        return;
      }
      const out = this.picture ? 0 : 0.4;  // closes the seams between triangles
      const corners = [[-out, -out], [cell + out, -out], [cell + out, cell + out], [-out, cell + out]];
      this.turns.forEach((turn, a) => {
        const [from, to] = [corners[turn], corners[(turn + 1) % 4]], path = area(this.fill(s * A + a, s));
        path.moveTo(x + from[0], y + from[1]);
        path.lineTo(x + to[0], y + to[1]);
        path.lineTo(x + cell / 2, y + cell / 2);
        path.closePath();
      });
    }

    fill(pair, s) {
      const { recording, player } = this, { layers, A } = recording;
      if (player.layer === "decided") return player.colour(recording, recording.source(pair));
      if (player.layer === "known") {
        const share = this.byPair ? layers.known[pair]
          : layers.known.slice(s * A, s * A + A).reduce((sum, k) => sum + k, 0) / A;
        return share ? `color-mix(in srgb, ${player.colours.known} ${Math.round(100 * share)}%, ${player.colours.surface})`
          : player.colours.surface;
      }
      return player.scaled(layers[player.layer][pair]);
    }

    drawSymbols(context, cell) {
      const { scene } = this.recording, colours = this.player.colours;
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.font = `bold ${Math.round(cell * 0.42)}px system-ui, sans-serif`;
      scene.cells.forEach((row, i) => [...row].forEach((symbol, j) => {
        if (!/[SGRYB]/.test(symbol) || this.picture) return;
        context.lineWidth = Math.max(2, cell / 12);
        context.strokeStyle = colours.surface;
        context.fillStyle = colours.text;
        context.strokeText(symbol, (j + 0.5) * cell, (i + 0.52) * cell);
        context.fillText(symbol, (j + 0.5) * cell, (i + 0.52) * cell);
      }));
    }

    addArrows(path, s, x, y, cell) {
      const greedy = this.recording.greedy(s);
      if (greedy.length === this.recording.A) return;
      for (const a of greedy) {
        if (this.turns[a] === undefined) continue;
        const [dx, dy] = [[0, -1], [1, 0], [0, 1], [-1, 0]][this.turns[a]];
        const [tip, base, side] = [0.44 * cell, 0.28 * cell, 0.1 * cell];
        path.moveTo(x + tip * dx, y + tip * dy);
        path.lineTo(x + base * dx - side * dy, y + base * dy + side * dx);
        path.lineTo(x + base * dx + side * dy, y + base * dy - side * dx);
        path.closePath();
      }
    }

    drawAgent(context, cell) {
      const { recording, frame, player } = this, { positions, guests } = recording.scene;
      const centre = (s) => [(positions[s][1] + 0.5) * cell, (positions[s][0] + 0.5) * cell];
      const first = frame.at - frame.step;
      context.lineCap = context.lineJoin = "round";
      for (const [width, colour] of [[cell / 5, "rgba(255,255,255,.75)"], [cell / 9, PANELS[this.slot]]]) {
        context.strokeStyle = colour;
        context.lineWidth = width;
        context.beginPath();
        for (let i = first; i <= frame.at; i++) context.lineTo(...centre(recording.states[i]));
        context.stroke();
      }
      let [x, y] = centre(recording.states[frame.at]);
      if (player.fraction > 0 && frame.step < frame.last) {
        const [nextX, nextY] = centre(recording.states[frame.at + 1]);
        const eased = player.fraction * player.fraction * (3 - 2 * player.fraction);
        x += eased * (nextX - x);
        y += eased * (nextY - y);
      }
      for (const [kind, row, column] of guests?.[recording.states[frame.at]] ?? []) {
        context.fillStyle = kind === "P" ? "#e69f00" : "#009e73";
        context.fillRect((column + 0.68) * cell, (row + (kind === "P" ? 0.08 : 0.62)) * cell, cell * 0.26, cell * 0.3);
      }
      const a = recording.chosen[frame.at], turn = this.turns[a];
      if (a >= 0 && turn !== undefined) {
        context.save();
        context.translate(x, y);
        context.rotate((turn * Math.PI) / 2);
        context.beginPath();
        context.moveTo(0, -cell * 0.5);
        context.lineTo(cell * 0.2, -cell * 0.24);
        context.lineTo(-cell * 0.2, -cell * 0.24);
        context.closePath();
        context.fillStyle = PANELS[this.slot];
        context.strokeStyle = "#fff";
        context.lineWidth = cell / 24;
        context.stroke();
        context.fill();
        context.restore();
      }
      context.beginPath();
      context.arc(x, y, cell * 0.29, 0, 2 * Math.PI);
      context.fillStyle = PANELS[this.slot];
      context.strokeStyle = "#fff";
      context.lineWidth = Math.max(2, cell / 12);
      context.fill();
      context.stroke();
      if (this.inspected != null) {
        const [row, column] = positions[this.inspected];
        context.strokeStyle = player.colours.text;
        context.lineWidth = Math.max(2, cell / 16);
        context.strokeRect(column * cell + 1, row * cell + 1, cell - 2, cell - 2);
      }
    }

    buildTable() {
      const recording = this.recording;
      const visited = [...new Set(recording.states)].sort((a, b) => a - b);
      this.rows = new Map(visited.map((s) => {
        const cells = recording.actions.map(() => element("td"));
        const title = element("th", { scope: "row", title: recording.state(s) }, recording.state(s));
        return [s, { cells, row: element("tr", {}, title, ...cells) }];
      }));
      const head = ["state", ...recording.actions].map((name) => element("th", { scope: "col" }, name));
      const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)),
        element("tbody", {}, ...[...this.rows.values()].map(({ row }) => row)));
      const others = recording.S - visited.length;
      const note = others ? element("p", { class: "hlr-note" },
        `${count(others, "state")} that the recorded episodes do not visit ${others === 1 ? "is" : "are"} not shown.`) : "";
      this.table.replaceChildren(table, note);
    }

    drawTable() {
      const { recording, player } = this, { layers } = recording;
      const key = [recording.at, player.layer, player.theme, player.arrows].join();
      if (key !== this.base) {
        const values = layers[player.layer === "U" ? "U" : "Q"];
        for (const [s, { cells }] of this.rows) {
          const greedy = player.arrows ? recording.greedy(s) : [];
          const all = greedy.length === recording.A;
          cells.forEach((cell, a) => {
            const pair = s * recording.A + a;
            const filled = player.layer !== "none" && layers[player.layer];
            const colour = filled ? this.filled(pair) : "transparent";
            cell.style.setProperty("--fill", colour);
            cell.textContent = `${layers.known ? (layers.known[pair] ? "● " : "○ ") : ""}${values ? number(values[pair]) : ""}`
              + (greedy.includes(a) && !all ? " ◂" : "");
          });
        }
        this.base = key;
      }
      this.marked?.classList.remove("hlr-current");
      this.marked = this.rows.get(this.current())?.row;
      if (!this.marked) return;
      this.marked.classList.add("hlr-current");
      const { offsetTop, offsetHeight } = this.marked;
      if (offsetTop < this.table.scrollTop + 30 || offsetTop + offsetHeight > this.table.scrollTop + this.table.clientHeight) {
        this.table.scrollTop = Math.max(0, offsetTop - this.table.clientHeight / 2);
      }
    }

    filled(pair) {
      const { recording, player } = this;
      if (player.layer === "decided") return player.colour(recording, recording.source(pair));
      if (player.layer === "known") return recording.layers.known[pair] ? player.colours.known : "transparent";
      return player.scaled(recording.layers[player.layer][pair]);
    }
  }

  const line = (context, x0, y0, x1, y1) => {
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
    context.stroke();
  };

  // A small chart over the time steps of the task, with one line per agent and a cursor.
  class Chart {
    constructor(player, title, points) {
      Object.assign(this, { player, title, points });
      this.canvas = element("canvas", { role: "img" });
      this.node = element("figure", { class: "hlr-chart" }, element("figcaption", {}, title), this.canvas);
    }

    draw() {
      const shown = this.player.shown(), ratio = window.devicePixelRatio || 1, { colours } = this.player;
      const lines = shown.map((panel) => this.points(panel.recording));
      const all = lines.flat().filter(([, y]) => Number.isFinite(y));
      this.node.hidden = !all.length;
      if (!all.length) return;
      this.width ||= this.node.clientWidth;
      const { width } = this, height = 84, context = this.canvas.getContext("2d");
      this.canvas.width = width * ratio;
      this.canvas.height = height * ratio;
      this.canvas.style.height = `${height}px`;
      context.scale(ratio, ratio);
      const end = this.player.end(), ys = all.map(([, y]) => y);
      const low = Math.min(...ys), high = Math.max(...ys, low + 1e-9), [left, bottom] = [46, height - 16];
      const X = (x) => left + (Math.min(x, end) / end) * (width - left - 6);
      const Y = (y) => bottom - ((y - low) / (high - low)) * (bottom - 8);
      context.strokeStyle = colours.line;
      line(context, left, bottom, width - 6, bottom);
      context.fillStyle = colours.muted;
      context.font = "11px system-ui, sans-serif";
      context.textAlign = "right";
      context.fillText(number(high), left - 4, 14);
      context.fillText(number(low), left - 4, bottom);
      context.fillText(`step ${Math.round(end).toLocaleString("en")}`, width - 6, height - 3);
      lines.forEach((line_, i) => {
        context.strokeStyle = PANELS[shown[i].slot];
        context.lineWidth = 2;
        context.beginPath();
        line_.forEach(([x, y], j) => {
          if (j) context.lineTo(X(x), Y(line_[j - 1][1]));
          context.lineTo(X(x), Y(y));
        });
        if (line_.length) context.lineTo(X(end), Y(line_[line_.length - 1][1]));
        context.stroke();
        const now = shown[i].recording.steps(shown[i].frame);
        const value = line_.findLast(([x]) => x <= now)?.[1] ?? line_[0]?.[1];
        if (value === undefined) return;
        context.fillStyle = PANELS[shown[i].slot];
        context.strokeStyle = colours.surface;
        context.beginPath();
        context.arc(X(now), Y(value), 4.5, 0, 2 * Math.PI);
        context.fill();
        context.stroke();
      });
      const said = shown.map((panel, i) => `${panel.recording.agent} from ${number(lines[i][0]?.[1])} to ${
        number(lines[i][lines[i].length - 1]?.[1])}`);
      this.canvas.setAttribute("aria-label", `${this.title}: ${said.join("; ")}`);
    }
  }

  class Player {
    constructor(root, data) {
      this.root = root;
      this.recordings = data.recordings.map((r) => new Recording(r, data.scenes[r.scene]));
      this.layer = "Q";
      this.arrows = true;
      this.fraction = 0;
      this.moment = 0;
      this.panels = [new Panel(this, 0), new Panel(this, 1)];
      this.charts = [
        new Chart(this, "known pairs", (r) => (r.layers.known
          ? [[0, 0], ...r.updateSteps.map((step, i) => [step, i + 1])] : [])),
        new Chart(this, "mean value over all pairs", (r) => r.snapshotSteps.map((step, i) => [step, r.means[i]])),
      ];
      this.build();
      this.retheme();
      this.choose();
    }

    build() {
      const options = (values, label) => values.map((value) => element("option", { value }, label(value)));
      const distinct = (name) => [...new Set(this.recordings.map((r) => r[name]))];
      const select = (label, entries, change) => {
        const node = element("select", { "aria-label": label, onchange: change }, ...entries);
        return [node, element("label", { class: "hlr-field" }, element("span", {}, label), node)];
      };
      const tasks = [...new Set(this.recordings.map((r) => `${r.repetition}/${r.task}`))];
      const repetitions = distinct("repetition");
      const name = (key) => {
        const [repetition, number] = key.split("/").map(Number);
        const { taskName } = this.recordings.find((r) => r.repetition === repetition && r.task === number);
        return repetitions.length > 1 ? `task ${taskName}, repetition ${repetition}` : `task ${taskName}`;
      };
      const again = () => this.choose();
      let taskField, firstField, secondField, speedField;
      [this.task, taskField] = select("Task", options(tasks, name), () => this.choose(true));
      [this.first, firstField] = select("Agent", [], again);
      [this.second, secondField] = select("Beside it", [], again);
      [this.speed, speedField] = select("Speed", options(SPEEDS, (x) => `${x}×`), () => this.schedule());
      this.speed.value = "1";
      this.task.value = tasks.findLast((key) => key.startsWith(`${repetitions[0]}/`));  // transfer helps there
      const button = (label, name, act) => element("button", { type: "button", "aria-label": label, title: label, onclick: act }, icon(name));
      this.playButton = button("Play", "play", () => this.toggle());
      this.playButton.classList.add("hlr-play");
      const controls = [
        button("Previous episode", "previous", () => this.jump(-1)),
        button("One step back", "back", () => this.step(-1)),
        this.playButton,
        button("One step forward", "forward", () => this.step(1)),
        button("Next episode", "next", () => this.jump(1)),
      ];
      this.slider = element("input", { type: "range", min: "0", value: "0", "aria-label": "Position",
        oninput: () => { this.pause(); this.go(Number(this.slider.value)); } });
      this.marks = element("div", { class: "hlr-marks", "aria-hidden": "true" });
      this.status = element("p", { class: "hlr-status", "aria-live": "polite" });
      const radios = LAYERS.map(([value, label]) => {
        const input = element("input", { type: "radio", name: `hlr-layer-${Math.random()}`, value,
          onchange: () => { this.layer = value; this.render(); } });
        input.checked = value === this.layer;
        return element("label", {}, input, element("span", {}, label));
      });
      for (const label of radios) label.firstChild.name = radios[0].firstChild.name;
      this.radios = radios.map((label) => label.firstChild);
      const arrows = element("input", { type: "checkbox", onchange: () => { this.arrows = arrows.checked; this.render(); } });
      arrows.checked = true;
      const layers = element("div", { class: "hlr-layers", role: "radiogroup", "aria-label": "Layer" }, ...radios);
      this.legend = element("div", { class: "hlr-legend" });
      this.fields = { secondField, firstField, taskField };
      taskField.hidden = tasks.length < 2;
      this.app = element("div", { class: "hlr-app" },
        element("div", { class: "hlr-bar" }, taskField, firstField, secondField),
        element("div", { class: "hlr-bar" }, layers,
          element("label", { class: "hlr-check" }, arrows, element("span", {}, "greedy arrows"))),
        this.legend,
        element("div", { class: "hlr-panels" }, ...this.panels.map((panel) => panel.node)),
        element("div", { class: "hlr-transport", role: "group", "aria-label": "Player" },
          element("div", { class: "hlr-buttons" }, ...controls), speedField,
          element("div", { class: "hlr-track" }, this.slider, this.marks)),
        this.status,
        element("div", { class: "hlr-charts" }, ...this.charts.map((chart) => chart.node)),
        element("p", { class: "hlr-note" },
          "Keys: space plays and pauses, ← and → take one step, page up and page down change the episode. "
          + "Point at a cell to see its values."));
      this.root.append(this.app);
      const target = this.root.dataset.keys === "page" ? document : this.root;
      target.addEventListener("keydown", (event) => this.key(event));
      new ResizeObserver(() => { this.measure(); this.render(); }).observe(this.app);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.retheme());
      new MutationObserver(() => this.retheme()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    }

    retheme() {
      const style = getComputedStyle(this.root);
      const names = ["surface", "text", "muted", "line", "wall", "hole", "known", "vmax", "model"];
      this.colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--hlr-${name}`).trim()]));
      this.theme = Object.values(this.colours).join();
      this.render();
    }

    // Show the chosen task and agents, from the beginning.
    choose(newTask = !this.first.options.length) {
      this.pause();
      const [repetition, task] = this.task.value.split("/").map(Number);
      const available = this.recordings.filter((r) => r.repetition === repetition && r.task === task);
      if (newTask) {
        const names = available.map((r) => r.agent);
        const old = [this.first.value, this.second.value];
        this.first.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
        this.second.replaceChildren(element("option", { value: "" }, "no other agent"),
          ...names.map((name) => element("option", { value: name }, name)));
        this.first.value = names.includes(old[0]) ? old[0] : names[0];
        const other = names.findLast((name) => name !== this.first.value) ?? "";
        this.second.value = names.includes(old[1]) ? old[1] : other;
        this.fields.secondField.hidden = names.length < 2;
        this.fields.firstField.hidden = names.length < 2;
      }
      const named = (name) => available.find((r) => r.agent === name);
      this.panels[0].show(named(this.first.value));
      this.panels[1].show(this.second.value === this.first.value ? undefined : named(this.second.value));
      this.app.classList.toggle("hlr-two", this.shown().length > 1);
      const chosen = this.shown().map((panel) => panel.recording);
      this.timeline = [];
      const episodes = [...new Set(chosen.flatMap((r) => r.episodes))].sort((a, b) => a - b);
      this.firstMoments = episodes.map((episode) => {
        const last = Math.max(...chosen.map((r) => (r.index.has(episode) ? r.frame(episode, 0).last : 0)));
        for (let step = 0; step <= last; step++) this.timeline.push({ episode, step, last });
        return this.timeline.length - last - 1;
      });
      this.low = Math.min(...chosen.map((r) => r.range[0]));
      this.high = Math.max(...chosen.map((r) => r.range[1]));
      const values = chosen.flatMap((r) => r.distinct);
      values.sort((a, b) => a - b);
      const at = (i) => values[Math.round((i / 12) * (values.length - 1))];
      this.knots = [...new Set(Array.from({ length: 13 }, (_, i) => at(i)))];
      for (const radio of this.radios) {
        radio.disabled = radio.value !== "none" && !chosen.some((r) => r.layers[radio.value]);
        if (radio.disabled && radio.checked) { this.layer = "none"; this.radios.at(-1).checked = true; }
      }
      this.measure();
      this.slider.max = String(this.timeline.length - 1);
      this.marks.replaceChildren(...this.firstMoments.map((moment) => element("i", {
        style: `left:${(100 * moment) / Math.max(1, this.timeline.length - 1)}%` })));
      this.go(0);
    }

    // Read the widths once: reading them after each change of the page would cost a layout.
    measure() {
      for (const part of [...this.panels, ...this.charts]) part.width = part.node.clientWidth || part.width;
    }

    shown() {
      return this.panels.filter((panel) => panel.recording);
    }

    // The last time step of the charts: that of the last update or of the last recorded step.
    end() {
      const steps = this.shown().flatMap(({ recording: r }) => [...r.updateSteps.slice(-1), ...r.snapshotSteps.slice(-1)]);
      return 1.04 * Math.max(1, ...steps);
    }

    position() {
      return this.timeline[this.moment];
    }

    // Values get colours half by their size and half by their rank, so that few large ones do not hide the others.
    rank(value) {
      if (!(this.high > this.low)) return 1;
      const { knots } = this, clipped = Math.min(value, this.high);
      const linear = (clipped - this.low) / (this.high - this.low);
      const above = knots.findIndex((knot) => knot >= clipped);
      if (above <= 0) return linear / 2 + (above < 0 ? 0.5 : 0);
      const part = (clipped - knots[above - 1]) / (knots[above] - knots[above - 1]);
      return linear / 2 + (above - 1 + part) / (knots.length - 1) / 2;
    }

    scaled(value) {
      if (value === -Infinity) return this.colours.surface;
      return scaled(this.rank(value));
    }

    // The value in the middle of the colour scale.
    middle() {
      let [low, high] = [this.low, this.high];
      for (let i = 0; i < 40; i++) {
        const middle = (low + high) / 2;
        if (this.rank(middle) < 0.5) low = middle; else high = middle;
      }
      return high;
    }

    // The same source task has the same colour in both panels.
    colour(recording, code) {
      if (code < 0) return this.colours.model;
      const name = recording.deciders[code];
      if (name === undefined || name === "v_max") return this.colours.vmax;
      if (/ tasks$/.test(name)) return SOURCES[SOURCES.length - 1]; // several tasks together
      const task = /, task (\d+)(?: \(.*\))?$/.exec(name);
      return SOURCES[(task ? Number(task[1]) - 1 : 7 + code) % SOURCES.length];
    }

    go(moment) {
      this.moment = Math.max(0, Math.min(this.timeline.length - 1, moment));
      this.fraction = 0;
      this.render();
    }

    step(by) {
      this.pause();
      this.go(this.moment + by);
    }

    jump(by) {
      const now = this.firstMoments.findLastIndex((moment) => moment <= this.moment);
      const back = by < 0 && this.firstMoments[now] < this.moment ? 0 : by;
      const target = this.firstMoments[Math.max(0, Math.min(this.firstMoments.length - 1, now + back))];
      this.go(by > 0 && now === this.firstMoments.length - 1 ? this.timeline.length - 1 : target);
    }

    toggle() {
      if (this.playing) { this.pause(); this.render(); } else this.play();
    }

    play() {
      if (this.moment >= this.timeline.length - 1) this.go(0);
      this.playing = true;
      this.setButton("Pause", "pause");
      this.status.setAttribute("aria-live", "off");
      this.schedule();
    }

    pause() {
      if (this.playing) cancelAnimationFrame(this.request);
      this.playing = false;
      this.fraction = 0;
      this.setButton("Play", "play");
      this.status.setAttribute("aria-live", "polite");
    }

    setButton(label, name) {
      this.playButton.replaceChildren(icon(name));
      this.playButton.setAttribute("aria-label", label);
      this.playButton.title = label;
    }

    schedule() {
      if (!this.playing) return;
      cancelAnimationFrame(this.request);
      const rate = STEPS_PER_SECOND * Number(this.speed.value), from = this.moment + this.fraction;
      const still = matchMedia("(prefers-reduced-motion: reduce)").matches || rate > 20;
      const started = performance.now();
      const tick = (now) => {
        const at = from + (Math.max(0, now - started) / 1000) * rate, moment = Math.floor(at);
        if (moment >= this.timeline.length - 1) {
          this.moment = this.timeline.length - 1;
          this.pause();
          this.render();
          return;
        }
        const changed = moment !== this.moment;
        this.moment = moment;
        this.fraction = still ? 0 : at - moment;
        if (changed) this.render(); else if (!still) for (const panel of this.shown()) this.redrawn(panel);
        this.request = requestAnimationFrame(tick);
      };
      this.request = requestAnimationFrame(tick);
    }

    redrawn(panel) {
      if (panel.recording.scene.kind === "grid") panel.drawMap();
    }

    key(event) {
      const tag = event.target.tagName, type = event.target.type;
      if (event.altKey || event.ctrlKey || event.metaKey || tag === "SELECT" || type === "radio") return;
      const acts = { ArrowRight: () => this.step(1), ArrowLeft: () => this.step(-1), Home: () => { this.pause(); this.go(0); },
        End: () => { this.pause(); this.go(this.timeline.length - 1); }, PageDown: () => this.jump(1), PageUp: () => this.jump(-1) };
      if (type !== "checkbox" && tag !== "BUTTON") acts[" "] = () => this.toggle();
      const act = acts[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    }

    render() {
      if (!this.timeline) return;
      const { episode, step, last } = this.position();
      for (const panel of this.shown()) panel.draw();
      for (const chart of this.charts) chart.draw();
      this.slider.value = String(this.moment);
      const said = this.shown().map((panel) => {
        const { recording, frame } = panel, s = recording.states[frame.at], a = recording.chosen[frame.at];
        const who = this.shown().length > 1 ? `${recording.agent}: ` : "";
        const where = `${who}state ${recording.state(s)}`;
        if (a < 0) return `${where}, ${recording.terminated[frame.episode] ? "terminated" : "end of the episode"}`;
        return `${where}, action ${recording.actions[a]}, reward ${number(recording.rewards[frame.at])}`;
      });
      const total = this.shown()[0].recording.nEpisodes;
      const where = step < last ? `step ${step + 1} of ${last}` : `after ${count(last, "step")}`;
      this.status.textContent = `Episode ${episode.toLocaleString("en")} of ${total.toLocaleString("en")}, ${where}: ${said.join("; ")}`;
      this.slider.setAttribute("aria-valuetext", `episode ${episode}, ${where}`);
      this.renderLegend();
    }

    renderLegend() {
      const shown = this.shown().map((panel) => panel.recording), chip = (colour, text) =>
        element("span", { class: "hlr-key" }, element("span", { class: "hlr-chip", style: `background:${colour}` }), text);
      let key = this.layer + this.theme, parts = [];
      if (this.layer === "Q" || this.layer === "U") {
        const middle = element("span", {}, number(this.middle()));
        const gradient = element("span", { class: "hlr-scale", style: `background:linear-gradient(90deg,${SCALE.join(",")})` }, middle);
        const label = this.layer === "Q" ? "value Q, on which the agent acts" : "upper bound U on the optimal value";
        parts = [number(this.low), gradient, number(this.high), element("span", { class: "hlr-muted" }, label)];
        key += [this.low, this.high];
      } else if (this.layer === "known") {
        parts = [chip(this.colours.known, "known"), chip(this.colours.surface, "unknown")];
      } else if (this.layer === "decided") {
        const names = new Map();
        for (const r of shown) {
          r.deciders.forEach((name, code) => names.set(name, this.colour(r, code)));
          if (r.layers.known) names.set("learned model", this.colours.model);
        }
        key += [...names.keys()];
        parts = [...names].map(([name, colour]) => chip(colour, name));
      }
      if (key === this.legendKey) return;
      this.legendKey = key;
      this.legend.replaceChildren(...parts);
    }
  }

  const start = async () => {
    const text = atob(section.querySelector(".hlr-data").textContent.trim());
    const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    const player = new Player(section, JSON.parse(await new Response(stream).text()));
    section.player = player;
    section.dataset.ready = "true";
  };
  start().catch((error) => {
    section.append(element("p", { class: "hlr-status" }, `The replay cannot be shown: ${error}`));
    throw error;
  });
})();
