// Policies on a trace: a table of them, and of the chosen one the jobs of every GPU over time.
const percent = (ratio) => `${(100 * ratio).toFixed(1)} %`;
const formatSeconds = (seconds) => seconds < 100 ? `${seconds.toFixed(1)} s` : seconds < 6000 ? `${(seconds / 60).toFixed(1)} min`
  : seconds < 360000 ? `${(seconds / 3600).toFixed(2)} h` : `${(seconds / 86400).toFixed(1)} d`;
const number = (text, alarm) => element("td", alarm ? "number alarm" : "number", text);
// A colour for each kind, far apart for those that follow each other.
const kindColor = (kind) => `hsl(${Math.round(kind * 137.5) % 360} 52% 55%)`;
let chosen = Math.max(0, data.policies.findIndex((policy) => policy.policy === "ebbtide"));

// Runs of a GPU in as many lines as there are at once.
const linesOf = (runs) => {
  const gpus = Array.from({ length: data.gpus_shown }, () => ({ ends: [], runs: [] }));
  for (const run of runs) {
    const gpu = gpus[run[0]];
    let line = gpu.ends.findIndex((end) => end <= run[1] + 1e-9);
    if (line < 0) line = gpu.ends.length;
    gpu.ends[line] = run[2];
    gpu.runs.push([line, run]);
  }
  return gpus;
};

const LINE = 11, GAP = 5, MARGIN = { left: 62, right: 12, top: 6, bottom: 24 };
let boxes = [];
const drawGantt = () => {
  const canvas = byId("gantt"), policy = data.policies[chosen], gpus = linesOf(policy.runs);
  const heights = gpus.map((gpu) => Math.max(1, gpu.ends.length) * LINE + GAP);
  const height = MARGIN.top + MARGIN.bottom + heights.reduce((a, b) => a + b, 0);
  canvas.style.height = `${height}px`;
  const width = canvas.clientWidth, ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const ctx = canvas.getContext("2d");
  ctx.scale(ratio, ratio);
  ctx.font = "12px system-ui, sans-serif";
  // One scale for all policies, so that they can be compared.
  const span = Math.max(1, ...data.policies.map((one) => one.makespan_s)), inner = width - MARGIN.left - MARGIN.right;
  const x = (seconds) => MARGIN.left + seconds / span * inner;
  const rough = span / Math.max(2, inner / 90), tick = [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, 86400].find((n) => n >= rough) || Math.ceil(rough / 86400) * 86400;
  ctx.textBaseline = "alphabetic";
  ctx.textAlign = "center";
  for (let at = 0; at <= span; at += tick) {
    const line = Math.round(x(at)) + 0.5;
    ctx.strokeStyle = color("grid");
    ctx.beginPath(); ctx.moveTo(line, MARGIN.top); ctx.lineTo(line, height - MARGIN.bottom + 3); ctx.stroke();
    ctx.fillStyle = color("faint");
    const label = tick >= 86400 ? `${+(at / 86400).toFixed(1)} d` : tick >= 3600 ? `${+(at / 3600).toFixed(1)} h` : tick >= 60 ? `${Math.round(at / 60)} min` : `${at} s`;
    if (line + ctx.measureText(label).width / 2 < width) ctx.fillText(label, line, height - 7);
  }
  boxes = [];
  let top = MARGIN.top;
  gpus.forEach((gpu, g) => {
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    ctx.fillStyle = color("soft");
    ctx.fillText(`GPU ${g}`, MARGIN.left - 8, top + (heights[g] - GAP) / 2);
    ctx.fillStyle = color("grid");
    ctx.fillRect(MARGIN.left, top + heights[g] - GAP, inner, 1);
    for (const [line, run] of gpu.runs) {
      const left = x(run[1]), wide = Math.max(1, x(run[2]) - left - 0.7), y = top + line * LINE;
      ctx.fillStyle = run[5] ? color("alarm") : kindColor(run[4]);
      ctx.fillRect(left, y, run[5] ? Math.max(3, wide) : wide, LINE - 1);
      boxes.push([left, y, Math.max(3, wide), run]);
    }
    top += heights[g];
  });
  canvas.dataset.drawn = boxes.length;
};

const choose = (number_) => {
  chosen = number_;
  [...byId("choice").children].forEach((button, i) => button.setAttribute("aria-pressed", i === chosen));
  [...byId("policies").children].forEach((tr, i) => tr.classList.toggle("mark", i === chosen));
  const policy = data.policies[chosen];
  byId("hint").textContent = `${policy.policy}: ${policy.rule}. A line for each job that a GPU runs at once; red: out of memory.` +
    (data.gpus > data.gpus_shown ? ` The first ${data.gpus_shown} of ${count(data.gpus)} GPUs.` : "") + (policy.cut ? " The first runs only." : "");
  drawGantt();
};

const fillPolicies = () => {
  const most = Math.max(1, ...data.policies.map((policy) => policy.makespan_s));
  byId("policies").append(...data.policies.map((policy, i) => {
    const tr = element("tr"), track = element("td"), bar = element("div", "track"), length = element("i", policy.policy === "ebbtide" ? "mine" : "");
    length.style.width = `${100 * (data.fill === null ? policy.makespan_s / most : policy.allocation)}%`;
    bar.append(length);
    track.append(bar);
    const beside = data.of_exclusive && policy.policy !== "exclusive" ? policy.makespan_s / data.of_exclusive - 1 : null;
    tr.append(element("td", "", policy.policy), track, number(formatSeconds(policy.makespan_s)),
      number(beside === null ? "" : `${beside > 0 ? "+" : ""}${percent(beside)}`), number(`${policy.oom}`, policy.oom > 0),
      number(formatSeconds(policy.mean_wait_s)), number(percent(policy.utilisation)), number(percent(policy.allocation)));
    tr.addEventListener("click", () => choose(i));
    return tr;
  }));
  byId("choice").append(...data.policies.map((policy, i) => {
    const button = element("button", "", policy.policy);
    button.type = "button";
    button.addEventListener("click", () => choose(i));
    return button;
  }));
};

byId("gantt").addEventListener("mousemove", (event) => {
  const box = byId("gantt").getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
  const found = boxes.find(([left, top, wide]) => px >= left && px <= left + wide && py >= top && py < top + LINE);
  if (!found) { byId("tooltip").hidden = true; return; }
  const [gpu, begin, end, name, kind, oom] = found[3], head = element("div", "head");
  head.append(element("span", "bytes", name), element("span", "soft", data.names[kind]));
  showTooltip([head, element("div", "", `GPU ${gpu}, from ${formatSeconds(begin)} for ${formatSeconds(end - begin)}`),
    ...(oom ? [element("div", "now", "out of memory")] : [])], event.clientX, event.clientY);
});
byId("gantt").addEventListener("mouseleave", () => { byId("tooltip").hidden = true; });

const ours = data.policies[chosen];
byId("figures").append(figure("makespan", formatSeconds(ours.makespan_s), ours.policy), figure("out of memory", `${ours.oom}`, `of ${count(data.jobs)} jobs`),
  figure("GPUs in use", percent(ours.utilisation), "in the mean", ours.utilisation), figure("mean wait", formatSeconds(ours.mean_wait_s), "before a job starts"));
if (data.notes.length > 0) {
  byId("assumptions").hidden = false;
  byId("assumed").append(...data.notes.map((note) => element("li", "", note)));
}
byId("title").textContent = data.title;
byId("subtitle").textContent = `${count(data.jobs)} jobs on ${count(data.gpus)} GPUs` + (data.fill === null ? "" : ", which fill and stay full");
fillPolicies();
choose(chosen);
new ResizeObserver(drawGantt).observe(byId("over-time"));
onTheme(drawGantt);
searchable();
