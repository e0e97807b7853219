// What the scripts of a plan's page share: names, colours and times in words. Times are nanoseconds.
const CAUSES = ["wait-memory", "wait-data", "wait-data", "wait-data"];
const CAUSE_NAMES = ["memory", "data", "the last copies", "other ranks"];
const formatTime = (ns) => Math.abs(ns) >= 1e6 || ns === 0 ? `${(ns / 1e6).toFixed(2)} ms` : `${(ns / 1e3).toFixed(1)} µs`;
const slowdown = (ns) => data.plain_time_ns > 0 ? `${(ns / data.plain_time_ns).toFixed(3)}x` : "";
const text = (index) => index >= 0 ? data.texts[index] : "";
const percent = (ratio) => `${(100 * ratio).toFixed(1)} %`;
const things = (number, one) => `${count(number)} ${one}${number === 1 ? "" : "s"}`;

// One iteration on a canvas: memory and the streams over time. What it gives draws it anew, and shows a part of it.
const drawPlan = () => {
  const canvas = byId("chart"), tooltip = byId("tooltip"), cursor = byId("cursor"), selection = byId("selection");
  const CLASSES = ["forward", "backward", "update", "again"];
  const TRACKS = ["compute", "to host", "to device", "collectives"].slice(0, data.tracks.length);
  const MARGIN = { left: 84, right: 14, top: 24, bottom: 26, tracks: 10 + 38 * data.tracks.length };
  const TRACK = { height: 28, step: 38 };
  const memory = data.memory, at = memory.at, stalls = data.stalls, whole = Math.max(1, data.time_ns);
  const totals = at.map((_, i) => memory.by.reduce((sum, values) => sum + values[i], 0));
  const tracks = data.tracks.map((track) => {
    const n = track.gap.length, begin = new Float64Array(n), end = new Float64Array(n);
    let last = 0;
    for (let i = 0; i < n; ++i) {
      begin[i] = last + track.gap[i];
      last = end[i] = begin[i] + track.length[i];
    }
    return { begin, end, type: track.class, text: track.text, count: track.count };
  });
  const phases = [0, 1, 2].map((c) => [tracks[0].begin[tracks[0].type.indexOf(c)], CLASSES[c]]).filter(([begin]) => begin !== undefined);
  let view = [0, whole], frame = { width: 1, height: 1, memory: 1, top: 1 };
  const most = Math.max(1, ...[totals, memory.plain].map((values) => values.reduce((a, b) => Math.max(a, b), 0)));
  const showBudget = data.budget_bytes <= 1.5 * most;

  const x = (ns) => MARGIN.left + (ns - view[0]) / (view[1] - view[0]) * (frame.width - MARGIN.left - MARGIN.right);
  const y = (bytes) => frame.memory - bytes / frame.top * (frame.memory - MARGIN.top);
  const timeAt = (pixel) => {
    const part = (pixel - MARGIN.left) / (frame.width - MARGIN.left - MARGIN.right);
    return view[0] + Math.min(1, Math.max(0, part)) * (view[1] - view[0]);
  };
  // The first index whose value is above.
  const above = (values, value) => {
    let low = 0, high = values.length;
    while (low < high) { const middle = (low + high) >> 1; if (values[middle] > value) high = middle; else low = middle + 1; }
    return low;
  };
  const sampleAt = (ns) => Math.max(0, above(at, ns) - 1);

  const drawAxes = (ctx) => {
    byteAxis(ctx, frame.top, 6, y, MARGIN.left, frame.width - MARGIN.right);
    const rough = (view[1] - view[0]) / Math.max(2, (frame.width - MARGIN.left) / 110), power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
    const tick = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
    const inMs = view[1] >= 1e6, digits = Math.max(0, -Math.floor(Math.log10(tick / (inMs ? 1e6 : 1e3)) + 1e-9));
    ctx.textAlign = "center";
    ctx.textBaseline = "alphabetic";
    for (let ns = Math.ceil(view[0] / tick) * tick; ns <= view[1]; ns += tick) {
      const line = Math.round(x(ns)) + 0.5;
      ctx.strokeStyle = color("grid");
      ctx.beginPath(); ctx.moveTo(line, MARGIN.top); ctx.lineTo(line, frame.height - MARGIN.bottom + 4); ctx.stroke();
      const label = `${(ns / (inMs ? 1e6 : 1e3)).toFixed(digits)} ${inMs ? "ms" : "µs"}`, half = ctx.measureText(label).width / 2;
      ctx.fillStyle = color("faint");
      if (line + half < frame.width) ctx.fillText(label, line, frame.height - 8);
    }
  };
  const drawPhases = (ctx) => {
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    let free = MARGIN.left;
    phases.forEach(([begin, name], i) => {
      const end = i + 1 < phases.length ? phases[i + 1][0] : whole;
      if (end <= view[0] || begin >= view[1]) return;
      const left = Math.max(x(begin), MARGIN.left), right = Math.min(x(end), frame.width - MARGIN.right);
      if (begin > view[0]) {
        ctx.strokeStyle = color("line");
        ctx.beginPath(); ctx.moveTo(Math.round(left) + 0.5, 4); ctx.lineTo(Math.round(left) + 0.5, frame.height - MARGIN.bottom); ctx.stroke();
      }
      const width = ctx.measureText(name).width;
      if (left < free || (left + width + 10 > right && i + 1 < phases.length) || left + width + 6 > frame.width) return;
      ctx.fillStyle = color("soft");
      ctx.fillText(name, left + 5, 14);
      free = left + width + 12;
    });
  };
  // Of each pixel the sample that takes most.
  const columnsOf = () => {
    const n = Math.max(1, Math.round(frame.width - MARGIN.left - MARGIN.right)), out = new Int32Array(n);
    let sample = sampleAt(view[0]);
    for (let i = 0; i < n; ++i) {
      const end = view[0] + (i + 1) / n * (view[1] - view[0]);
      let best = sample;
      while (sample + 1 < at.length && at[sample + 1] < end) {
        ++sample;
        if (totals[sample] > totals[best]) best = sample;
      }
      out[i] = best;
    }
    return out;
  };
  const drawMemory = (ctx) => {
    const columns = columnsOf(), level = new Float64Array(columns.length);
    memory.by.forEach((values, c) => {
      ctx.fillStyle = color(data.categories[c]);
      ctx.beginPath();
      ctx.moveTo(MARGIN.left, y(level[0]));
      for (let i = 0; i < columns.length; ++i) {
        const top = y(level[i] + values[columns[i]]);
        ctx.lineTo(MARGIN.left + i, top); ctx.lineTo(MARGIN.left + i + 1, top);
      }
      for (let i = columns.length - 1; i >= 0; --i) {
        ctx.lineTo(MARGIN.left + i + 1, y(level[i])); ctx.lineTo(MARGIN.left + i, y(level[i]));
        level[i] += values[columns[i]];
      }
      ctx.fill();
    });
    ctx.strokeStyle = color("plain");
    ctx.lineWidth = 1.3;
    ctx.beginPath();
    let sample = sampleAt(view[0]);
    columns.forEach((_, i) => {
      const end = view[0] + (i + 1) / columns.length * (view[1] - view[0]);
      let bytes = memory.plain[sample];
      while (sample + 1 < at.length && at[sample + 1] < end) bytes = Math.max(bytes, memory.plain[++sample]);
      ctx.lineTo(MARGIN.left + i, y(bytes)); ctx.lineTo(MARGIN.left + i + 1, y(bytes));
    });
    ctx.stroke();
    ctx.lineWidth = 1;
    if (!showBudget) return;
    const line = Math.round(y(data.budget_bytes)) + 0.5, label = `budget ${formatBytes(data.budget_bytes)}`;
    ctx.strokeStyle = ctx.fillStyle = color("capacity");
    ctx.setLineDash([6, 4]);
    ctx.beginPath(); ctx.moveTo(MARGIN.left, line); ctx.lineTo(frame.width - MARGIN.right, line); ctx.stroke();
    ctx.setLineDash([]);
    ctx.textAlign = "right";
    ctx.textBaseline = "alphabetic";
    ctx.lineWidth = 4;
    ctx.strokeStyle = color("card");
    ctx.strokeText(label, frame.width - MARGIN.right - 6, line - 5);
    ctx.lineWidth = 1;
    ctx.fillText(label, frame.width - MARGIN.right - 6, line - 5);
  };
  const trackTop = (t) => frame.height - MARGIN.bottom - MARGIN.tracks + 14 + t * TRACK.step;
  // Shares of the pixels' time by class, drawn as stacked columns.
  const fillTrack = (ctx, top, colors, pieces) => {
    const n = Math.max(1, Math.round(frame.width - MARGIN.left - MARGIN.right)), scale = n / (view[1] - view[0]);
    const shares = colors.map(() => new Float64Array(n));
    pieces((begin, end, type) => {
      const from = Math.max(0, (begin - view[0]) * scale), to = Math.min(n, (end - view[0]) * scale);
      const values = shares[type];
      for (let i = Math.floor(from); i < to; ++i) values[i] += Math.min(to, i + 1) - Math.max(from, i);
    });
    const level = new Float64Array(n);
    shares.forEach((values, c) => {
      ctx.fillStyle = color(colors[c]);
      for (let i = 0; i < n;) {
        if (values[i] <= 0) { ++i; continue; }
        let j = i + 1;
        if (values[i] > 0.999) while (j < n && values[j] > 0.999) ++j;
        const height = Math.min(1, values[i]) * TRACK.height, base = level[i] * TRACK.height;
        ctx.fillRect(MARGIN.left + i, top + TRACK.height - base - height, j - i, height);
        for (; i < j; ++i) level[i] += values[i];
      }
    });
  };
  const drawTracks = (ctx) => {
    tracks.forEach((track, t) => {
      const top = trackTop(t), first = above(track.end, view[0]);
      ctx.fillStyle = color("grid");
      ctx.fillRect(MARGIN.left, top, frame.width - MARGIN.left - MARGIN.right, TRACK.height);
      const colors = t === 0 ? [...CLASSES, ...CAUSES] : ["copy"];
      fillTrack(ctx, top, colors, (put) => {
        for (let i = first; i < track.begin.length && track.begin[i] < view[1]; ++i) put(track.begin[i], track.end[i], track.type[i]);
        if (t > 0) return;
        for (const [begin, length, cause] of stalls) if (begin < view[1] && begin + length > view[0]) put(begin, begin + length, CLASSES.length + cause);
      });
      ctx.textBaseline = "middle";
      ctx.textAlign = "left";
      ctx.fillStyle = color("card");
      for (let i = first; i < track.begin.length && track.begin[i] < view[1]; ++i) {
        const left = x(track.begin[i]), right = x(track.end[i]);
        if (right - left < 12) continue;
        ctx.globalAlpha = 0.45;
        if (left > MARGIN.left) ctx.fillRect(Math.round(left), top, 1, TRACK.height);
        ctx.globalAlpha = 1;
        const room = Math.min(right, frame.width - MARGIN.right) - Math.max(left, MARGIN.left) - 12, label = text(track.text[i]);
        const shown = [label, label.split(" of ").pop()].find((words) => ctx.measureText(words).width <= room);
        if (shown) ctx.fillText(shown, Math.max(left, MARGIN.left) + 6, top + TRACK.height / 2 + 1);
      }
    });
  };
  const draw = () => {
    const ratio = window.devicePixelRatio || 1;
    frame = { width: canvas.clientWidth, height: canvas.clientHeight };
    frame.memory = frame.height - MARGIN.bottom - MARGIN.tracks;
    frame.top = Math.max(most, showBudget ? data.budget_bytes : 0) * 1.05;
    canvas.width = Math.round(frame.width * ratio);
    canvas.height = Math.round(frame.height * ratio);
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    drawAxes(ctx);
    ctx.save();
    ctx.beginPath(); ctx.rect(MARGIN.left, 0, frame.width - MARGIN.left - MARGIN.right, frame.height - MARGIN.bottom); ctx.clip();
    drawMemory(ctx);
    drawTracks(ctx);
    ctx.restore();
    drawPhases(ctx);
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    ctx.fillStyle = color("soft");
    TRACKS.forEach((name, t) => ctx.fillText(name, MARGIN.left - 8, trackTop(t) + TRACK.height / 2));
    const zoomed = view[0] > 0 || view[1] < whole;
    for (const id of ["earlier", "later", "wider", "reset"]) byId(id).hidden = !zoomed;
    canvas.dataset.drawn = at.length;
    canvas.dataset.view = view.map(Math.round).join(" ");
  };

  const aboutMemory = (ns) => {
    const i = sampleAt(ns), nodes = [], head = element("div", "head");
    head.append(element("span", "bytes", formatBytes(totals[i])), element("span", "soft", `at ${formatTime(at[i])}`));
    nodes.push(head);
    data.categories.forEach((name, c) => {
      if (memory.by[c][i] === 0) return;
      const line = element("div");
      line.append(dot(name), ` ${name} ${formatBytes(memory.by[c][i])}`);
      nodes.push(line);
    });
    nodes.push(element("div", "now", `without a plan ${formatBytes(memory.plain[i])}`));
    return nodes;
  };
  // The longest of the track that the pixel shows.
  const longestAt = (track, from, to) => {
    let best = -1;
    for (let i = above(track.end, from); i < track.begin.length && track.begin[i] < to; ++i) {
      if (best < 0 || track.end[i] - track.begin[i] > track.end[best] - track.begin[best]) best = i;
    }
    return best;
  };
  const aboutTrack = (t, ns) => {
    const track = tracks[t], width = (view[1] - view[0]) / frame.width, head = element("div", "head");
    const i = longestAt(track, ns - width / 2, ns + width / 2);
    const stall = t === 0 && stalls.find(([begin, length]) => begin <= ns && ns < begin + length);
    if (stall && (i < 0 || stall[1] > track.end[i] - track.begin[i])) {
      head.append(dot(CAUSES[stall[2]]), element("span", "bytes", formatTime(stall[1])), element("span", "soft", `waiting for ${CAUSE_NAMES[stall[2]]}`));
      const nodes = [head];
      if (stall[4] >= 0) nodes.push(element("div", "name", `${["copy to the host", "copy", "copy", "collective"][stall[2]]} of ${text(stall[4])}, ${formatBytes(stall[5])}`));
      if (stall[3] >= 0) nodes.push(element("div", "soft", `before ${text(stall[3])}`));
      nodes.push(element("div", "now", `at ${formatTime(stall[0])}`));
      return nodes;
    }
    if (i < 0) return [element("div", "soft", `nothing at ${formatTime(ns)}`)];
    const style = t === 0 ? CLASSES[track.type[i]] : "copy", again = t === 0 && track.type[i] === 3;
    head.append(dot(style), element("span", "bytes", formatTime(track.end[i] - track.begin[i])), element("span", "soft", t === 0 ? (again ? "run again" : CLASSES[track.type[i]]) : t === 3 ? "collective" : `copy ${TRACKS[t]}`));
    const more = track.count[i] > 1 ? ` and ${count(track.count[i] - 1)} more` : "";
    return [head, element("div", "name", text(track.text[i]) + more), element("div", "now", `from ${formatTime(track.begin[i])} to ${formatTime(track.end[i])}`)];
  };
  const hideHover = () => { tooltip.hidden = cursor.hidden = true; };
  let dragFrom = null;
  const inside = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const hover = (px, py, clientX, clientY) => {
    if (px < MARGIN.left || px > frame.width - MARGIN.right) { hideHover(); return; }
    Object.assign(cursor.style, { left: `${px}px`, height: `${frame.height - MARGIN.bottom}px` });
    cursor.hidden = false;
    const t = tracks.map((_, k) => k).find((k) => py >= trackTop(k) - 4 && py <= trackTop(k) + TRACK.height + 4);
    showTooltip(t === undefined ? aboutMemory(timeAt(px)) : aboutTrack(t, timeAt(px)), clientX, clientY);
  };
  canvas.addEventListener("mousemove", (event) => {
    const [px, py] = inside(event);
    if (dragFrom !== null) {
      const left = Math.min(dragFrom, px), right = Math.max(dragFrom, px);
      Object.assign(selection.style, { left: `${left}px`, width: `${right - left}px`, height: `${frame.height - MARGIN.bottom}px` });
      selection.hidden = right - left < 4;
    }
    hover(px, py, event.clientX, event.clientY);
  });
  canvas.addEventListener("mouseleave", hideHover);
  canvas.addEventListener("mousedown", (event) => { dragFrom = inside(event)[0]; });
  const show = (from, to) => {
    const length = Math.min(whole, Math.max(to - from, 100));
    const begin = Math.min(Math.max(0, from), whole - length);
    view = [begin, begin + length];
    draw();
  };
  window.addEventListener("mouseup", (event) => {
    if (dragFrom === null) return;
    const [px] = inside(event), from = timeAt(Math.min(dragFrom, px)), to = timeAt(Math.max(dragFrom, px));
    const wide = Math.abs(px - dragFrom) >= 4;
    dragFrom = null;
    selection.hidden = true;
    if (wide) show(from, to);
  });
  canvas.addEventListener("dblclick", () => show(0, whole));
  byId("reset").addEventListener("click", () => show(0, whole));
  const move = (share, factor) => {
    const length = view[1] - view[0], middle = (view[0] + view[1]) / 2 + share * length;
    show(middle - length * factor / 2, middle + length * factor / 2);
  };
  byId("earlier").addEventListener("click", () => move(-0.5, 1));
  byId("later").addEventListener("click", () => move(0.5, 1));
  byId("wider").addEventListener("click", () => move(0, 2));
  navigable(canvas, { whole, least: 100, margin: MARGIN, view: () => view, show, hover, leave: hideHover });

  const legendOf = (id) => (node, label) => { const entry = element("span"); entry.append(node, label); byId(id).append(entry); };
  const line = element("i", "dash"), memoryLegend = legendOf("memory-legend"), legend = legendOf("stream-legend");
  data.categories.forEach((name, c) => { if (memory.by[c].some((bytes) => bytes > 0)) memoryLegend(dot(name), name); });
  line.style.borderColor = "var(--plain)";
  memoryLegend(line, "without a plan, at the same op");
  for (const [c, name] of [[0, "forward"], [1, "backward"], [2, "update"], [3, "run again"]]) {
    if (tracks[0].type.includes(c)) legend(dot(CLASSES[c]), name);
  }
  if (data.copied_out_bytes + data.copied_in_bytes > 0) legend(dot("copy"), "copies");
  if (data.wait_for_memory_ns > 0) legend(dot("wait-memory"), "waiting for memory");
  if (data.wait_for_data_ns + (data.wait_for_ranks_ns || 0) + data.drain_ns > 0) legend(dot("wait-data"), data.exchange_ns > 0 ? "waiting for data or other ranks" : "waiting for data");
  canvas.setAttribute("aria-label", `An iteration of ${formatTime(data.time_ns)}: memory and streams over time`);
  byId("over-time").hidden = false;
  new ResizeObserver(() => { if (canvas.clientWidth) draw(); }).observe(byId("plot"));
  return { draw, show, whole };
};
