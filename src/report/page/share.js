// A mix: memory by job and groups over time on a canvas; jobs, cuts and other ways below.
const formatTime = (ns) => Math.abs(ns) >= 1e6 || ns === 0 ? `${(ns / 1e6).toFixed(2)} ms` : `${(ns / 1e3).toFixed(1)} µs`;
const percent = (ratio) => `${(100 * ratio).toFixed(1)} %`;
const PHASES = ["forward", "backward", "update"], OPACITY = [0.5, 1, 0.75];
const jobColor = (i) => `job${i % 6}`;
const nameOf = (job) => `${job.model}:${job.batch}`;
const number = (text) => element("td", "number", text);
const row = (...cells) => { const tr = element("tr"); tr.append(...cells); return tr; };

const drawMix = () => {
  const canvas = byId("chart"), cursor = byId("cursor"), tooltip = byId("tooltip");
  const TRACK = { height: 26, step: 34 }, MARGIN = { left: 92, right: 14, top: 16, bottom: 26 };
  const tracks = data.jobs.length * TRACK.step + 8, span = Math.max(1, data.span_ns);
  const live = data.memory.live, samples = live[0].length, states = data.jobs.map((job) => job.state_bytes);
  const state = states.reduce((a, b) => a + b, 0);
  const heights = live[0].map((_, k) => state + data.memory.height.reduce((sum, values) => sum + values[k], 0));
  byId("plot").style.height = `${400 + tracks}px`;
  let frame = { width: 1, height: 1, memory: 1, top: 1 }, view = [0, span];
  const inner = () => frame.width - MARGIN.left - MARGIN.right;
  const x = (ns) => MARGIN.left + (ns - view[0]) / (view[1] - view[0]) * inner();
  const y = (bytes) => frame.memory - bytes / frame.top * (frame.memory - MARGIN.top);
  const trackTop = (i) => frame.memory + 14 + i * TRACK.step;

  const drawAxes = (ctx) => {
    byteAxis(ctx, frame.top, 6, y, MARGIN.left, frame.width - MARGIN.right);
    const rough = (view[1] - view[0]) / Math.max(2, inner() / 110), power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
    const tick = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
    ctx.textAlign = "center";
    ctx.textBaseline = "alphabetic";
    for (let ns = Math.ceil(view[0] / tick) * tick; ns <= view[1]; ns += tick) {
      const line = Math.round(x(ns)) + 0.5, label = span >= 1e6 ? `${+(ns / 1e6).toFixed(3)} ms` : `${+(ns / 1e3).toFixed(3)} µs`;
      ctx.strokeStyle = color("grid");
      ctx.beginPath(); ctx.moveTo(line, MARGIN.top); ctx.lineTo(line, frame.height - MARGIN.bottom + 4); ctx.stroke();
      ctx.fillStyle = color("faint");
      if (line + ctx.measureText(label).width / 2 < frame.width) ctx.fillText(label, line, frame.height - 8);
    }
  };
  const drawMemory = (ctx) => {
    const left = x(0), width = (x(span) - left) / samples, level = new Float64Array(samples);
    // What stays lies below, then what each has in its lane.
    let base = 0;
    states.forEach((bytes, i) => {
      ctx.globalAlpha = 0.45;
      ctx.fillStyle = color(jobColor(i));
      ctx.fillRect(MARGIN.left, y(base + bytes), inner(), y(base) - y(base + bytes));
      base += bytes;
    });
    ctx.globalAlpha = 1;
    level.fill(base);
    live.forEach((values, i) => {
      ctx.fillStyle = color(jobColor(i));
      ctx.beginPath();
      ctx.moveTo(left, y(level[0]));
      for (let k = 0; k < samples; ++k) {
        const top = y(level[k] + values[k]);
        ctx.lineTo(left + k * width, top); ctx.lineTo(left + (k + 1) * width, top);
      }
      for (let k = samples - 1; k >= 0; --k) {
        ctx.lineTo(left + (k + 1) * width, y(level[k])); ctx.lineTo(left + k * width, y(level[k]));
        level[k] += values[k];
      }
      ctx.fill();
    });
    ctx.strokeStyle = color("reserved");
    ctx.lineWidth = 1.1;
    ctx.beginPath();
    heights.forEach((bytes, k) => { ctx.lineTo(left + k * width, y(bytes)); ctx.lineTo(left + (k + 1) * width, y(bytes)); });
    ctx.stroke();
    ctx.lineWidth = 1;
    const line = Math.round(y(data.capacity_bytes)) + 0.5;
    ctx.strokeStyle = ctx.fillStyle = color("capacity");
    ctx.setLineDash([6, 4]);
    ctx.beginPath(); ctx.moveTo(MARGIN.left, line); ctx.lineTo(frame.width - MARGIN.right, line); ctx.stroke();
    ctx.setLineDash([]);
  };
  const drawRuns = (ctx) => {
    data.jobs.forEach((job, i) => {
      ctx.fillStyle = color("grid");
      ctx.fillRect(MARGIN.left, trackTop(i), inner(), TRACK.height);
      ctx.fillStyle = color("soft");
      ctx.textAlign = "right";
      ctx.textBaseline = "middle";
      const label = job.model.split("/").pop();
      ctx.fillText(label.length > 12 ? `${label.slice(0, 11)}…` : label, MARGIN.left - 8, trackTop(i) + TRACK.height / 2);
    });
    for (const [job, group, begin, end] of data.runs) {
      const left = Math.max(x(begin), MARGIN.left), right = Math.min(x(end), frame.width - MARGIN.right), top = trackTop(job);
      if (right <= left) continue;
      const phase = data.jobs[job].groups[group].phase;
      ctx.fillStyle = color(jobColor(job));
      ctx.globalAlpha = OPACITY[phase];
      ctx.fillRect(left, top, Math.max(1, right - left - 1), TRACK.height);
      ctx.globalAlpha = 1;
      if (phase === 2) {
        ctx.fillStyle = color("card");
        for (let at = left + 2; at < right - 1; at += 5) ctx.fillRect(at, top, 1.5, TRACK.height);
      }
      if (right - left < 22) continue;
      ctx.fillStyle = color(phase === 0 ? "ink" : "card");
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      ctx.fillText(group, (left + right) / 2, top + TRACK.height / 2 + 1);
    }
  };
  const draw = () => {
    const ratio = window.devicePixelRatio || 1;
    frame = { width: canvas.clientWidth, height: canvas.clientHeight };
    frame.memory = frame.height - MARGIN.bottom - tracks;
    frame.top = Math.max(data.capacity_bytes, data.peak_bytes) * 1.05;
    if (data.peak_bytes < data.capacity_bytes / 2) frame.top = data.peak_bytes * 1.2;
    canvas.width = Math.round(frame.width * ratio);
    canvas.height = Math.round(frame.height * ratio);
    const ctx = canvas.getContext("2d");
    ctx.scale(ratio, ratio);
    drawAxes(ctx);
    ctx.save();
    ctx.beginPath(); ctx.rect(MARGIN.left, 0, inner(), frame.memory + 1); ctx.clip();
    drawMemory(ctx);
    ctx.restore();
    drawRuns(ctx);
    canvas.dataset.drawn = samples;
  };

  const aboutMemory = (ns) => {
    const k = Math.min(samples - 1, Math.max(0, Math.floor(ns / span * samples))), head = element("div", "head");
    const total = state + live.reduce((sum, values) => sum + values[k], 0), nodes = [head];
    head.append(element("span", "bytes", formatBytes(total)), element("span", "soft", `in use at ${formatTime(ns)}`));
    data.jobs.forEach((job, i) => {
      const line = element("div");
      line.append(dot(jobColor(i)), ` ${nameOf(job)} ${formatBytes(live[i][k])} and ${formatBytes(states[i])} of state`);
      nodes.push(line);
    });
    nodes.push(element("div", "now", `addresses held ${formatBytes(heights[k])} of ${formatBytes(data.capacity_bytes)}`));
    return nodes;
  };
  const aboutRun = (job, ns) => {
    const run = data.runs.find(([of, , begin, end]) => of === job && begin <= ns && ns < end);
    if (!run) return [element("div", "soft", `${nameOf(data.jobs[job])} waits`)];
    const group = data.jobs[job].groups[run[1]], head = element("div", "head");
    head.append(dot(jobColor(job)), element("span", "bytes", `group ${run[1]}`), element("span", "soft", `${PHASES[group.phase]} of ${nameOf(data.jobs[job])}`));
    return [head, element("div", "", `${formatTime(run[3] - run[2])} here, ${formatTime(group.time_ns)} alone`),
      element("div", "", `up to ${formatBytes(group.peak_bytes)} of the lane, ${formatBytes(group.after_bytes)} after it`)];
  };
  const hover = (px, py, clientX, clientY) => {
    if (px < MARGIN.left || px > frame.width - MARGIN.right) { tooltip.hidden = cursor.hidden = true; return; }
    Object.assign(cursor.style, { left: `${px}px`, height: `${frame.height - MARGIN.bottom}px` });
    cursor.hidden = false;
    const ns = view[0] + (px - MARGIN.left) / inner() * (view[1] - view[0]), track = Math.floor((py - trackTop(0)) / TRACK.step);
    const onTrack = track >= 0 && track < data.jobs.length;
    showTooltip(onTrack ? aboutRun(track, ns) : aboutMemory(ns), clientX, clientY);
  };
  canvas.addEventListener("mousemove", (event) => {
    const box = canvas.getBoundingClientRect();
    hover(event.clientX - box.left, event.clientY - box.top, event.clientX, event.clientY);
  });
  const leave = () => { tooltip.hidden = cursor.hidden = true; };
  canvas.addEventListener("mouseleave", leave);
  navigable(canvas, { whole: span, least: span / 1e4, margin: MARGIN, view: () => view, show: (from, to) => { view = [from, to]; draw(); }, hover, leave });
  new ResizeObserver(draw).observe(canvas);
  return draw;
};

const fillJobs = () => {
  byId("jobs").append(...data.jobs.map((job, i) => {
    const name = element("td");
    name.append(dot(jobColor(i)), nameOf(job));
    return row(name, number(job.lane === null ? "" : `${job.lane}`), number(formatBytes(job.state_bytes)), number(formatBytes(job.live_peak_bytes)),
      number(formatBytes(job.height_bytes)), number(formatTime(job.solo_time_ns)), number(data.fits ? job.iterations_per_second.toFixed(3) : ""),
      number(data.fits ? percent(job.waiting) : ""), element("td", "soft", job.planned ? `${formatTime(job.planned_time_ns)} alone` : ""));
  }));
};
const fillCuts = () => {
  const most = Math.max(1, ...data.jobs.map((job) => job.height_bytes));
  const shown = new Set();
  data.jobs.forEach((job, i) => {
    if (shown.has(nameOf(job))) return;
    shown.add(nameOf(job));
    const line = element("div", "cut"), about = element("div"), boxes = element("div", "boxes");
    const crossing = job.groups.reduce((sum, group) => sum + group.crossing_bytes, 0);
    about.append(element("div", "name", nameOf(job)), element("div", "soft", `${job.groups.length} groups; ${formatBytes(crossing)} cross all cuts`));
    job.groups.forEach((group, g) => {
      const box = element("div"), cross = element("u");
      box.style.flex = `${Math.max(1, group.time_ns)} 1 0`;
      box.style.height = `${Math.max(1, 100 * group.peak_bytes / most)}%`;
      box.style.background = `var(--${jobColor(i)})`;
      box.style.opacity = OPACITY[group.phase];
      cross.style.height = `${100 * group.crossing_bytes / Math.max(1, group.peak_bytes)}%`;
      box.append(cross);
      box.addEventListener("mousemove", (event) => showTooltip([
        element("div", "head", `group ${g}: steps ${group.begin} to ${group.end - 1}`), element("div", "soft", PHASES[group.phase]),
        element("div", "", `${formatTime(group.time_ns)}; up to ${formatBytes(group.peak_bytes)}, ${formatBytes(group.after_bytes)} after`),
        element("div", "now", `${formatBytes(group.crossing_bytes)} cross the cut behind it`)], event.clientX, event.clientY));
      box.addEventListener("mouseleave", () => { byId("tooltip").hidden = true; });
      boxes.append(box);
    });
    line.append(about, boxes);
    byId("cuts").append(line);
  });
};
const fillBaselines = () => {
  const ways = [...data.baselines];
  if (data.fits) ways.unshift({ name: "ebbtide", fits: true, time_ns: data.time_ns, memory_bytes: data.peak_bytes, note: "", mine: true });
  const longest = Math.max(1, ...ways.map((way) => way.time_ns || 0));
  byId("baselines").append(...ways.map((way) => {
    const cell = element("td"), track = element("div", "track"), bar = element("i", way.mine ? "mine" : "");
    if (way.fits) { bar.style.width = `${100 * way.time_ns / longest}%`; track.append(bar); }
    cell.append(track);
    const ratio = way.fits && data.fits && !way.mine ? `${(way.time_ns / data.time_ns).toFixed(2)}x` : "";
    const tr = row(element("td", "", way.name), cell, number(way.fits ? formatTime(way.time_ns) : "does not fit"), number(ratio), number(formatBytes(way.memory_bytes)), element("td", "soft", way.note));
    tr.className = way.mine ? "mark" : way.fits ? "" : "off";
    return tr;
  }));
  byId("compared").hidden = false;
};

byId("title").textContent = data.title;
byId("subtitle").textContent = `together on ${data.gpu}, ${formatBytes(data.capacity_bytes)}`;
if (data.fits) {
  byId("figures").append(
    figure("peak", formatBytes(data.peak_bytes), `${percent(data.peak_bytes / data.capacity_bytes)} of ${formatBytes(data.capacity_bytes)}`, data.peak_bytes / data.capacity_bytes),
    figure("every job runs one iteration in", formatTime(data.time_ns), `${data.speedup.toFixed(3)}x as fast as one after the other, ${formatTime(data.exclusive_time_ns)}`),
    figure("groups that overlap", percent(data.overlapped_group_runs / Math.max(1, data.group_runs)), "with a group of another job"),
    data.batch_share ? figure("batch", percent(data.batch_share), `of the largest alone; ${percent(data.batch_share_without_plans)} without plans`)
      : figure("GPU busy", percent(data.gpu_busy), "mean share in use"));
  data.jobs.forEach((job, i) => { const node = element("span"); node.append(dot(jobColor(i)), nameOf(job)); byId("legend").append(node); });
  for (const [style, label, dashed] of [["reserved", "addresses held"], ["capacity", "capacity", true]]) {
    const node = element("span"), line = element("i", dashed ? "dash dashed" : "dash");
    line.style.borderColor = `var(--${style})`;
    node.append(line, label);
    byId("legend").append(node);
  }
  byId("over-time").hidden = false;
  const draw = drawMix();
  draw();
  onTheme(draw);
} else {
  byId("failures").append(element("b", "", "Does not fit"), data.reason);
  byId("failures").hidden = false;
  onTheme(() => {});
}
fillJobs();
fillCuts();
if (data.baselines) fillBaselines();
searchable();
