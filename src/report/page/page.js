// Memory over time, drawn from the data in the page. Time is counted in events; `samples` holds, for a few thousand
// moments, what is too small to be listed by category; `big` lists the rest as [begin, end, bytes, category, name, stack].
{
  const canvas = byId("chart"), tooltip = byId("tooltip"), cursor = byId("cursor"), selection = byId("selection");
  const categories = data.categories, at = data.samples.at, rest = data.samples.rest, counts = data.samples.counts;
  const big = data.big, marks = data.marks;
  const MARGIN = { left: 74, right: 14, top: 16, bottom: 26 };
  let view = [0, Math.max(1, data.events)], toCapacity = data.failures.length > 0 && data.capacity > 0, moment = data.peak, columns = [], lefts = [], marked = null, sought = "";

  // ---- Words

  const text = (index) => index >= 0 ? data.texts[index] : "";
  // The mark that an event leads to: marks stand at the end of what they name.
  const markAt = (event) => { const m = marks.find(([end]) => event < end); return m ? m[1] : ""; };
  const lives = (a) => {
    const from = markAt(a[0]), to = a[1] >= data.events ? "the end" : markAt(a[1]);
    if (!marks.length) return `${count(a[0])} – ${a[1] >= data.events ? "end" : count(a[1])}`;
    return from === to || !to ? (from || "after the last step") : `${from || "after the last step"} – ${to}`;
  };

  // ---- What is live

  const columnOf = (event) => {  // the last sample at or before the event
    let low = 0, high = at.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (at[middle] <= event) low = middle; else high = middle - 1;
    }
    return low;
  };
  // From the bottom of the stack up: {category, bytes, allocation} or, without an allocation, the small ones together.
  const stackAt = (event) => {
    const layers = [], column = columnOf(event);
    categories.forEach((category, c) => {
      if (at.length && rest[c][column] > 0) layers.push({ category: c, bytes: rest[c][column], count: counts[c][column] });
      for (const a of bigOf[c]) {
        if (a[0] > event) break;
        if (a[1] > event) layers.push({ category: c, bytes: a[2], allocation: a });
      }
    });
    return layers;
  };
  const bigOf = categories.map((_, c) => big.filter((a) => a[3] === c));
  const reservedAt = (event) => at.length ? data.samples.reserved[columnOf(event)] : 0;
  const sum = (layers) => layers.reduce((total, layer) => total + layer.bytes, 0);

  // ---- The chart

  // What the scales depend on, found once per drawing: width and height of the canvas, bytes at its upper end.
  let frame = { width: 1, height: 1, top: 1 };
  const highest = Math.max(1, data.peakReserved, data.peakAllocated, ...data.samples.reserved);
  const measure = () => {
    const capacity = toCapacity ? data.capacity : 0;
    frame = { width: canvas.clientWidth, height: canvas.clientHeight, top: Math.max(capacity * 1.03, highest * (capacity ? 1.03 : 1.08)) };
  };
  const x = (event) => MARGIN.left + (event - view[0]) / (view[1] - view[0]) * (frame.width - MARGIN.left - MARGIN.right);
  const y = (bytes) => frame.height - MARGIN.bottom - bytes / frame.top * (frame.height - MARGIN.top - MARGIN.bottom);
  const bytesAt = (pixel) => (frame.height - MARGIN.bottom - pixel) / (frame.height - MARGIN.top - MARGIN.bottom) * frame.top;
  const eventAt = (pixel) => {
    const share = (pixel - MARGIN.left) / (frame.width - MARGIN.left - MARGIN.right);
    return Math.floor(view[0] + Math.min(1, Math.max(0, share)) * (view[1] - view[0]));
  };

  // A pixel stands for many events: the one at which most is allocated, as that is what is drawn.
  const momentAt = (pixel) => {
    const from = eventAt(pixel), to = eventAt(pixel + 1);
    let best = Math.min(from, Math.max(0, data.events - 1)), most = -1;
    if (to - from < 2) return best;
    for (let i = columnOf(from); i < at.length && at[i] <= to; ++i) {
      if (at[i] >= from && data.samples.allocated[i] > most) { most = data.samples.allocated[i]; best = at[i]; }
    }
    return best;
  };

  // Moments at which the picture is drawn: the samples, and where they are too coarse also where large ones begin and end.
  const momentsInView = () => {
    const first = columnOf(view[0]), moments = [view[0]];
    for (let i = first; i < at.length && at[i] < view[1]; ++i) if (at[i] > view[0]) moments.push(at[i]);
    if (moments.length < 1500) {
      for (const a of big) for (const e of [a[0], a[1]]) if (e > view[0] && e < view[1]) moments.push(e);
    }
    return [...new Set(moments)].sort((a, b) => a - b);
  };
  // Of the moments on one pixel, that at which most is allocated stands for all, a pixel wide: a peak of one event would be too thin to be seen.
  const chooseColumns = () => {
    const allocated = (event) => at.length ? data.samples.allocated[columnOf(event)] : 0;
    let pixel = -1;
    columns = [];
    lefts = [];
    for (const event of momentsInView()) {
      const last = columns.length - 1, left = x(event);
      if (Math.floor(left) !== pixel) {
        pixel = Math.floor(left);
        columns.push(event);
        lefts.push(left);
      } else {
        lefts[last] = pixel;
        if (allocated(event) > allocated(columns[last])) columns[last] = event;
      }
    }
  };
  const drawGrid = (ctx, width, height) => {
    byteAxis(ctx, frame.top, 5, y, MARGIN.left, width - MARGIN.right);
  };
  const drawMarks = (ctx, width, height) => {
    const visible = marks.filter(([end]) => end >= view[0] && end <= view[1]);
    const every = Math.max(1, Math.ceil(visible.length / 40));
    ctx.textAlign = "center";
    ctx.textBaseline = "alphabetic";
    let free = MARGIN.left;  // where the next label may begin
    const label = (from, to, name) => {
      const middle = (Math.max(x(from), MARGIN.left) + Math.min(x(to), width - MARGIN.right)) / 2;
      const half = ctx.measureText(name).width / 2;
      if (middle - half < free || middle + half > width) return;
      ctx.fillStyle = color("soft");
      ctx.fillText(name, middle, height - 8);
      free = middle + half + 14;
    };
    marks.forEach(([end, name], i) => {
      const begin = i > 0 ? marks[i - 1][0] : 0;
      if (end < view[0] || begin > view[1]) return;
      if (i % every === 0) {
        if (end <= view[1]) {
          ctx.strokeStyle = color("line");
          const line = Math.round(x(end)) + 0.5;
          ctx.beginPath(); ctx.moveTo(line, MARGIN.top); ctx.lineTo(line, height - MARGIN.bottom + 5); ctx.stroke();
        }
        label(begin, end, name);
      }
    });
  };
  // One layer: the bytes of `values` over `level`, which is raised by them. Drawn as steps.
  const drawBand = (ctx, moments, from, to, level, values, fill) => {
    const rightOf = (i) => i + 1 < moments.length ? lefts[i + 1] : x(view[1]);
    ctx.beginPath();
    ctx.moveTo(lefts[from], y(level[from]));
    let tallest = 0;
    for (let i = from; i < to; ++i) {
      const top = y(level[i] + values(i));
      tallest = Math.max(tallest, y(level[i]) - top);
      if (i === from || level[i] + values(i) !== level[i - 1] + values(i - 1)) ctx.lineTo(lefts[i], top);
      if (i + 1 === to || level[i] + values(i) !== level[i + 1] + values(i + 1)) ctx.lineTo(rightOf(i), top);
    }
    for (let i = to - 1; i >= from; --i) {
      const bottom = y(level[i]);
      if (i + 1 === to || level[i] !== level[i + 1]) ctx.lineTo(rightOf(i), bottom);
      if (i === from || level[i] !== level[i - 1]) ctx.lineTo(lefts[i], bottom);
    }
    ctx.closePath();
    ctx.fillStyle = fill;
    ctx.fill();
    if (tallest > 2.5 && rightOf(to - 1) - lefts[from] > 3) ctx.stroke();
    for (let i = from; i < to; ++i) level[i] += values(i);
  };
  const drawStack = (ctx) => {
    const moments = columns, level = new Float64Array(moments.length);
    const sample = moments.map(columnOf);
    ctx.strokeStyle = color("card");
    ctx.lineWidth = 0.6;
    const lower = (event) => { let lo = 0, hi = moments.length; while (lo < hi) { const m = (lo + hi) >> 1; if (moments[m] < event) lo = m + 1; else hi = m; } return lo; };
    categories.forEach((category, c) => {
      const fill = color(category);
      if (at.length && moments.some((_, i) => rest[c][sample[i]] > 0)) {
        drawBand(ctx, moments, 0, moments.length, level, (i) => rest[c][sample[i]], fill);
      }
      for (const a of bigOf[c]) {
        if (a[0] >= view[1]) break;
        const from = lower(a[0]), to = lower(Math.min(a[1], view[1]));
        if (from < to) drawBand(ctx, moments, from, to, level, () => a[2], a === marked ? color("ink") : fill);
      }
    });
    ctx.lineWidth = 1;
  };
  const drawLine = (ctx, bytes, name, style, width) => {
    const line = Math.round(y(bytes)) + 0.5;
    if (line < 2) return;
    ctx.strokeStyle = ctx.fillStyle = color(style);
    ctx.setLineDash([6, 4]);
    ctx.beginPath(); ctx.moveTo(MARGIN.left, line); ctx.lineTo(width - MARGIN.right, line); ctx.stroke();
    ctx.setLineDash([]);
    ctx.textAlign = "left";
    ctx.fillText(name, MARGIN.left + 6, line + (line < 18 ? 14 : -5));
  };
  const drawReserved = (ctx) => {
    if (!at.length) return;
    ctx.strokeStyle = color("reserved");
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    columns.forEach((event, i) => {
      const bytes = data.samples.reserved[columnOf(event)];
      if (i === 0) ctx.moveTo(lefts[i], y(bytes)); else ctx.lineTo(lefts[i], y(bytes));
      ctx.lineTo(i + 1 < columns.length ? lefts[i + 1] : x(view[1]), y(bytes));
    });
    ctx.stroke();
    ctx.lineWidth = 1;
  };
  const drawPeak = (ctx, width) => {
    if (data.peak < view[0] || data.peak > view[1] || data.peak < 0) return;
    const bytes = sum(stackAt(data.peak)), left = x(data.peak), top = y(bytes);
    ctx.fillStyle = color("ink");
    ctx.beginPath(); ctx.arc(left, top, 3.5, 0, 7); ctx.fill();
    ctx.strokeStyle = color("card"); ctx.lineWidth = 1.5; ctx.stroke(); ctx.lineWidth = 1;
  };

  const draw = () => {
    measure();
    const { width, height } = frame, ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    chooseColumns();
    drawGrid(ctx, width, height);
    ctx.save();
    ctx.beginPath(); ctx.rect(MARGIN.left, 0, width - MARGIN.left - MARGIN.right, height - MARGIN.bottom); ctx.clip();
    drawStack(ctx);
    drawReserved(ctx);
    if (data.capacity) drawLine(ctx, data.capacity - data.context, data.context ? "capacity without the context" : "capacity", "capacity", width);
    drawPeak(ctx, width);
    ctx.restore();
    drawMarks(ctx, width, height);
    byId("peak").hidden = data.window[1] - data.window[0] >= data.events || view === data.window;
    byId("reset").hidden = view[0] === 0 && view[1] >= data.events;
    canvas.dataset.drawn = columns.length;
  };

  // ---- Hover

  const layerUnder = (event, bytes) => {
    let level = 0;
    const layers = stackAt(event);
    for (const layer of layers) {
      level += layer.bytes;
      if (bytes < level) return [layer, layers];
    }
    return [null, layers];
  };
  const describe = (event, bytes) => {
    const [layer, layers] = layerUnder(event, bytes);
    const nodes = [], allocated = sum(layers), reserved = reservedAt(event);
    const head = element("div", "head");
    if (layer) {
      const category = categories[layer.category];
      head.append(dot(category), element("span", "bytes", formatBytes(layer.bytes)), element("span", "category soft", category));
      nodes.push(head);
      if (layer.allocation) {
        const a = layer.allocation, stack = a[5] >= 0 ? data.stacks[a[5]] : [];
        if (a[4] >= 0) nodes.push(element("div", "name", text(a[4])));
        stack.forEach((frame, i) => nodes.push(element("div", i ? "place outer" : "place", text(frame))));
        nodes.push(element("div", "soft", `${count(a[2])} bytes · ${lives(a)}`));
      } else {
        nodes.push(element("div", "soft", `${count(layer.count)} smaller allocation${layer.count === 1 ? "" : "s"}`));
      }
    } else {
      const spare = Math.max(0, reserved - allocated);
      head.append(element("span", "bytes", bytes <= reserved ? `${formatBytes(spare)} reserved, not in use` : "free"));
      nodes.push(head);
    }
    const step = markAt(event);
    nodes.push(element("div", "now", `${step ? step + ", " : ""}event ${count(event)}: ${formatBytes(allocated)} allocated, ${formatBytes(reserved)} reserved`));
    return nodes;
  };
  let dragFrom = null;
  const inside = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top, box];
  };
  const hover = (px, py, clientX, clientY) => {
    const { width, height } = frame;
    if (px < MARGIN.left || px > width - MARGIN.right) { tooltip.hidden = cursor.hidden = true; return; }
    Object.assign(cursor.style, { left: `${px}px`, height: `${height - MARGIN.bottom}px` });
    cursor.hidden = false;
    showTooltip(describe(momentAt(px), bytesAt(py)), clientX, clientY);
  };
  canvas.addEventListener("mousemove", (event) => {
    const [px, py] = inside(event), { height } = frame;
    if (dragFrom !== null) {
      const left = Math.min(dragFrom, px), right = Math.max(dragFrom, px);
      Object.assign(selection.style, { left: `${left}px`, width: `${right - left}px`, height: `${height - MARGIN.bottom}px` });
      selection.hidden = right - left < 4;
    }
    hover(px, py, event.clientX, event.clientY);
  });
  const leave = () => { tooltip.hidden = cursor.hidden = true; };
  canvas.addEventListener("mouseleave", leave);
  navigable(canvas, {
    whole: Math.max(1, data.events), least: 4, margin: MARGIN, view: () => view, hover, leave, pick: (px) => choose(momentAt(px)),
    show: (from, to) => { view = [Math.floor(from), Math.max(Math.floor(from) + 2, Math.ceil(to))]; draw(); },
  });
  canvas.addEventListener("mousedown", (event) => { dragFrom = inside(event)[0]; });
  window.addEventListener("mouseup", (event) => {
    if (dragFrom === null) return;
    const [px] = inside(event), from = eventAt(Math.min(dragFrom, px)), to = eventAt(Math.max(dragFrom, px)) + 1;
    const wide = Math.abs(px - dragFrom) >= 4;
    dragFrom = null;
    selection.hidden = true;
    if (wide && to - from >= 2) { view = [from, to]; draw(); } else if (!wide && event.target === canvas) choose(momentAt(px));
  });
  const whole = () => { view = [0, Math.max(1, data.events)]; draw(); };
  canvas.addEventListener("dblclick", () => { choose(data.peak); whole(); });
  byId("reset").addEventListener("click", whole);
  byId("peak").addEventListener("click", () => { view = data.window; draw(); });
  byId("scale").addEventListener("click", () => {
    toCapacity = !toCapacity;
    byId("scale").setAttribute("aria-pressed", toCapacity);
    draw();
  });

  // ---- What stands around the chart

  const choose = (event) => {
    moment = Math.min(Math.max(0, event), Math.max(0, data.events - 1));
    const layers = stackAt(moment), allocated = sum(layers), reserved = reservedAt(moment);
    const step = markAt(moment), where = `${moment === data.peak ? "at the peak" : "at event " + count(moment)}${step ? ", " + step : ""}`;
    document.querySelectorAll(".where").forEach((node) => { node.textContent = where; });
    const totals = categories.map((name, c) => [name, layers.reduce((t, l) => t + (l.category === c ? l.bytes : 0), 0)]);
    const shown = totals.filter(([, bytes]) => bytes > 0);
    const whole = Math.max(reserved, allocated);
    byId("share").replaceChildren(...shown.map(([name, bytes]) => {
      const piece = element("i");
      Object.assign(piece.style, { flex: `0 0 ${100 * bytes / whole}%`, background: `var(--${name})` });
      return piece;
    }));
    const row = (name, bytes, marker, className) => {
      const tr = element("tr", className), label = element("td");
      if (marker) label.append(marker);
      label.append(name);
      tr.append(label, element("td", "number", formatBytes(bytes)), element("td", "number", share(bytes, whole)));
      return tr;
    };
    byId("categories").replaceChildren(
      ...shown.sort((a, b) => b[1] - a[1]).map(([name, bytes]) => row(name, bytes, dot(name))),
      row("allocated", allocated, null, "more"),
      ...(reserved > allocated ? [row("reserved, not in use", reserved - allocated, null, "more")] : []));
    const live = sought ? big.filter((a) => holds(a)).map((a) => ({ category: a[3], bytes: a[2], allocation: a })) : layers.filter((layer) => layer.allocation);
    const listed = live.sort((a, b) => b.bytes - a.bytes).slice(0, sought ? 200 : 25);
    if (sought) document.querySelector("#largest .where").textContent = `${count(live.length)} hold${live.length === 1 ? "s" : ""} “${sought}”, of ${count(big.length)} in the whole run`;
    byId("largest").classList.toggle("placeless", listed.every((layer) => layer.allocation[5] < 0));
    byId("largest").classList.toggle("nameless", listed.every((layer) => layer.allocation[4] < 0));
    byId("top").replaceChildren(...listed.map((layer) => {
      const a = layer.allocation, tr = element("tr"), category = element("td", "category");
      category.append(dot(categories[layer.category]), categories[layer.category]);
      const stack = a[5] >= 0 ? data.stacks[a[5]] : [];
      const place = element("td", "place", stack.length ? text(stack[0]) : "");
      tr.append(element("td", "number", formatBytes(a[2])), category, element("td", "name", text(a[4])), place, element("td", "lives", lives(a)));
      tr.addEventListener("mouseenter", () => { marked = a; draw(); });
      tr.addEventListener("mouseleave", () => { marked = null; draw(); });
      if (!stack.length) return tr;
      // The whole stack opens below the row.
      const below = element("tr", "stack"), cell = element("td");
      cell.colSpan = 5;
      cell.append(...stack.map((frame) => element("div", "", text(frame))));
      below.append(cell);
      below.hidden = true;
      tr.className = "own";
      tr.tabIndex = 0;
      tr.setAttribute("role", "button");
      tr.setAttribute("aria-expanded", "false");
      tr.title = "Its whole stack";
      const toggle = () => { below.hidden = !below.hidden; tr.setAttribute("aria-expanded", !below.hidden); };
      tr.addEventListener("click", toggle);
      tr.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); } });
      return [tr, below];
    }).flat());
  };
  // Allocations by their names, categories and stacks.
  const holds = (a) => [categories[a[3]], text(a[4]), ...(a[5] >= 0 ? data.stacks[a[5]].map(text) : [])].some((words) => words.toLowerCase().includes(sought));
  searchable((words) => { sought = words; choose(moment); });
  const fill = () => {
    byId("title").textContent = data.title;
    byId("subtitle").textContent = data.subtitle;
    byId("figures").append(
      figure("peak reserved", formatBytes(data.peakReserved), data.reservedPlace),
      figure("peak allocated", formatBytes(data.peakAllocated), data.allocatedPlace),
      figure("context", formatBytes(data.context), "of CUDA, beside the above"),
      figure(data.predicted ? "predicted total" : "total", formatBytes(data.total),
        data.capacity ? `${share(data.total, data.capacity)} of ${formatBytes(data.capacity)}` : "", data.capacity ? data.total / data.capacity : undefined, data.total > 0.97 * data.capacity));
    if (data.failures.length) {
      byId("failures").append(element("b", "", "Out of memory"), ...data.failures.map((line) => element("div", "", line)));
      byId("failures").hidden = false;
    }
    const used = categories.filter((_, c) => bigOf[c].length || (rest[c] || []).some((bytes) => bytes > 0));
    byId("legend").append(...used.map((name) => { const node = element("span"); node.append(dot(name), name); return node; }));
    for (const [name, style, dashed] of [["reserved", "reserved", ""], ["capacity", "capacity", " dashed"]]) {
      if (name === "capacity" && !data.capacity) continue;
      const node = element("span"), line = element("i", "dash" + dashed);
      line.style.borderColor = `var(--${style})`;
      node.append(line, name);
      byId("legend").append(node);
    }
    byId("scale").hidden = !data.capacity;
    byId("scale").setAttribute("aria-pressed", toCapacity);
    if (data.notes.length) {
      byId("notes").append(...data.notes.map((line) => element("li", "", line)));
      byId("notes").hidden = false;
    }
    canvas.setAttribute("aria-label", `Memory over time; peak reserved ${formatBytes(data.peakReserved)}`);
  };
  fill();
  choose(data.peak);
  draw();
  onTheme(draw);
  new ResizeObserver(() => { if (canvas.clientWidth) draw(); }).observe(byId("plot"));
}
