// Time over budget as a curve: the plans that were found, and the time that no plan is below.
const drawCurve = () => {
  const tooltip = byId("tooltip");
  const plain = data.plain_time_ns, points = [...data.pareto].reverse(), found = points.filter((point) => point.feasible);
  const width = Math.max(320, byId("curve").clientWidth), height = 300, box = { left: 58, right: 18, top: 14, bottom: 44 };
  const least = Math.max(0, Math.min(data.floor_bytes, points[0].budget_bytes) - 0.03 * data.plain_peak_bytes), most = Math.max(points[points.length - 1].budget_bytes, data.plain_peak_bytes);
  const slowest = Math.max(1.02, ...found.map((point) => point.time_ns / plain)), roof = 1 + (slowest - 1) * 1.08;
  const x = (bytes) => box.left + (bytes - least) / (most - least) * (width - box.left - box.right);
  const y = (ratio) => height - box.bottom - (ratio - 1) / (roof - 1) * (height - box.top - box.bottom);
  const space = Object.assign(element("div"), { innerHTML: "<svg></svg>" }).firstChild.namespaceURI;
  const shape = (name, attributes, words) => {
    const node = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (words !== undefined) node.textContent = words;
    return node;
  };
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Time of an iteration over the budget" });
  const rough = (roof - 1) / 5, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
  const digits = Math.max(1, -Math.floor(Math.log10(step) + 1e-9));
  for (let ratio = 1; ratio <= roof + 1e-9; ratio += step) {
    svg.append(shape("line", { class: "grid", x1: box.left, x2: width - box.right, y1: y(ratio), y2: y(ratio) }));
    svg.append(shape("text", { x: box.left - 8, y: y(ratio) + 4, "text-anchor": "end" }, `${ratio.toFixed(digits)}x`));
  }
  const peak = data.plain_peak_bytes, range = 100 * (most - least) / peak, tick = [1, 2, 5, 10, 20].find((n) => range / n <= width / 70) || 50;
  for (let part = Math.ceil(100 * least / peak / tick) * tick; part <= 100 * most / peak + 1e-9; part += tick) {
    const at = x(part * peak / 100);
    svg.append(shape("line", { class: "grid", x1: at, x2: at, y1: box.top, y2: height - box.bottom }));
    svg.append(shape("text", { x: at, y: height - box.bottom + 17, "text-anchor": "middle" }, `${part} %`));
  }
  svg.append(shape("text", { class: "title", x: (box.left + width - box.right) / 2, y: height - 6, "text-anchor": "middle" }, `budget, of the plain peak of ${formatBytes(peak)}`));
  const none = data.minimum_budget_bytes;
  if (x(none) > box.left) svg.append(shape("rect", { class: "none", x: box.left, y: box.top, width: x(none) - box.left, height: height - box.top - box.bottom }));
  // A plan serves every budget from its own up; a bound every budget down from its own.
  const upper = [], lower = [];
  found.forEach((point, i) => {
    const end = i + 1 < found.length ? found[i + 1].budget_bytes : most, ratio = point.time_ns / plain;
    upper.push([x(point.budget_bytes), y(ratio)], [x(end), y(ratio)]);
    const from = i > 0 ? found[i - 1].budget_bytes : point.budget_bytes;
    lower.push([x(from), y(point.lower_bound_ns / plain)], [x(point.budget_bytes), y(point.lower_bound_ns / plain)]);
  });
  const path = (list) => list.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
  const bounded = data.bounded && found.length > 0;
  if (bounded) {
    svg.append(shape("path", { class: "gap", d: `${path(upper)}${path([...lower].reverse()).replace("M", "L")}Z` }));
    svg.append(shape("path", { class: "bound", d: path(lower) }));
  }
  if (found.length) svg.append(shape("path", { class: "found", d: path(upper) }));
  const asked = data.budget_bytes;
  if (asked >= least && asked <= most) {
    svg.append(shape("line", { class: "asked", x1: x(asked), x2: x(asked), y1: box.top, y2: height - box.bottom }));
    const right = x(asked) > width / 2;
    svg.append(shape("text", { class: "asked-text", x: x(asked) + (right ? -6 : 6), y: box.top + 10, "text-anchor": right ? "end" : "start" }, "budget"));
  }
  for (const point of found) {
    const mark = shape("circle", { class: point.budget_bytes === asked ? "asked-point" : "", cx: x(point.budget_bytes), cy: y(point.time_ns / plain), r: 4.5 });
    mark.addEventListener("mousemove", (event) => {
      const head = element("div", "head");
      head.append(element("span", "bytes", formatBytes(point.budget_bytes)), element("span", "soft", `${share(point.budget_bytes, peak)} of plain`));
      showTooltip([head, element("div", "", `${formatTime(point.time_ns)}, ${slowdown(point.time_ns)} of plain`),
        ...(bounded ? [element("div", "soft", `no plan is faster than ${formatTime(point.lower_bound_ns)}`)] : [])], event.clientX, event.clientY);
    });
    mark.addEventListener("mouseleave", () => { tooltip.hidden = true; });
    svg.append(mark);
  }
  byId("curve").replaceChildren(svg);
};
