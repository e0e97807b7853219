// What a verb has printed with --json, whatever the verb: numbers as figures, objects of numbers as bars, lists of objects as
// tables. Names say what a number is: ..._bytes, ..._ns, ..._per_second.
const words = (name) => name.replace(/_(bytes|ns)$/, "").replaceAll("_", " ");
const isNumber = (value) => typeof value === "number";
const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const formatTime = (ns) => ns >= 1e9 ? `${(ns / 1e9).toFixed(3)} s` : ns >= 1e6 ? `${(ns / 1e6).toFixed(3)} ms` : `${(ns / 1e3).toFixed(1)} µs`;
const show = (name, value) => {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (!isNumber(value)) return Array.isArray(value) ? value.map((v) => show(name, v)).join(", ") : isObject(value) ? JSON.stringify(value) : String(value);
  if (/bytes$/.test(name)) return formatBytes(value);
  if (/_ns$/.test(name)) return formatTime(value);
  if (/flops/.test(name) && value >= 1000) {
    const power = Math.min(5, Math.floor(Math.log10(value) / 3));
    return `${(value / 1000 ** power).toPrecision(3)} ${["", "K", "M", "G", "T", "P"][power]}`;
  }
  return Number.isInteger(value) ? count(value) : value.toPrecision(4);
};
const cell = (tag, name, value, isHead) => {
  const text = isHead ? words(name) : show(name, value);
  return element(tag, isNumber(value) || (isHead && value) ? "number" : text.length > 40 ? "long" : "", text);
};
const card = (name, ...nodes) => {
  const node = element("section", "card"), bar = element("div", "bar"), scroll = element("div", "scroll");
  bar.append(element("h2", "", words(name)));
  scroll.append(...nodes);
  node.append(bar, scroll);
  return node;
};
// An object of numbers. Its own name or theirs tell the unit; numbers of a breakdown are bytes.
const bars = (name, object) => {
  const unit = /breakdown|bytes/.test(name) ? "bytes" : name, table = element("table", "bars");
  const most = Math.max(...Object.values(object).map(Math.abs), 1e-9);
  for (const [key, value] of Object.entries(object).sort((a, b) => b[1] - a[1])) {
    const row = element("tr"), place = element("td"), bar = element("i");
    bar.style.width = `${100 * Math.abs(value) / most}%`;
    place.append(bar);
    row.append(element("td", "", words(key)), element("td", "number", show(/_(bytes|ns)$/.test(key) ? key : unit, value)), place);
    table.append(row);
  }
  return card(name, table);
};
const kMostRows = 500;
const rows = (name, list) => {
  const columns = [...new Set(list.flatMap(Object.keys))].filter((key) => !list.some((item) => isObject(item[key]) || (Array.isArray(item[key]) && item[key].some(isObject))));
  const table = element("table"), head = element("tr");
  for (const key of columns) head.append(cell("th", key, list.some((item) => isNumber(item[key])), true));
  table.append(head);
  for (const item of list.slice(0, kMostRows)) {
    const row = element("tr");
    for (const key of columns) row.append(cell("td", key, item[key]));
    table.append(row);
  }
  const more = list.length > kMostRows ? [element("p", "hint", `and ${count(list.length - kMostRows)} more`)] : [];
  return card(name, table, ...more);
};
const values = (name, object) => {
  const table = element("table");
  for (const [key, value] of Object.entries(object)) {
    const row = element("tr");
    row.append(element("td", "", words(key)), cell("td", key, value));
    table.append(row);
  }
  return card(name, table);
};
// A list of numbers over time.
const curve = (name, list) => {
  const width = Math.min(1000, Math.max(330, byId("parts").clientWidth - 34)), height = 220, left = 74, bottom = 8, most = Math.max(...list, 1), isBytes = /bytes|over_time/.test(name);
  const space = Object.assign(element("div"), { innerHTML: "<svg></svg>" }).firstChild.namespaceURI;
  const shape = (tag, attributes, words) => {
    const node = document.createElementNS(space, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (words !== undefined) node.textContent = words;
    return node;
  };
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, class: "curve", role: "img", "aria-label": `${words(name)}: at most ${show(isBytes ? "bytes" : name, most)}` });
  const y = (value) => height - bottom - value / most * (height - bottom - 14);
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(shape("line", { x1: left, x2: width, y1: y(share * most), y2: y(share * most), class: "grid" }));
    svg.append(shape("text", { x: left - 8, y: y(share * most) + 4, "text-anchor": "end" }, show(isBytes ? "bytes" : name, Math.round(share * most))));
  }
  const step = (width - left) / list.length;
  const path = list.map((value, i) => `L${(left + i * step).toFixed(1)} ${y(value).toFixed(1)}L${(left + (i + 1) * step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  svg.append(shape("path", { d: `M${left} ${y(0)}${path}L${width} ${y(0)}Z`, class: "area" }));
  return card(name, svg);
};
// The largest batch by GPU: what is safe, what fits, what fits with a plan.
const batches = (list) => {
  const table = element("table", "batches"), most = Math.max(1, ...list.flatMap((gpu) => [gpu.max_batch_safe, gpu.max_batch, gpu.max_batch_with_plan || 0]));
  for (const gpu of [...list].sort((a, b) => a.memory_bytes - b.memory_bytes)) {
    const row = element("tr"), place = element("td");
    for (const [key, label] of [["max_batch_safe", "safe"], ["max_batch", "fits"], ["max_batch_with_plan", "with a plan"]]) {
      if (!isNumber(gpu[key])) continue;
      const line = element("div", "line"), bar = element("i", key);
      bar.style.width = `${100 * gpu[key] / most}%`;
      line.append(bar, element("span", "", `${count(gpu[key])} ${label}`));
      place.append(line);
    }
    row.append(element("td", "", gpu.gpu), element("td", "number", formatBytes(gpu.memory_bytes)), place);
    table.append(row);
  }
  return card("largest batch by GPU", table);
};
const isCurve = (name, value) => Array.isArray(value) && value.length >= 16 && value.every(isNumber) && /bytes|over_time/.test(name);
const kept = ["schema_version", "command", "model", "name", "about", "format", "version", "meta", "dtype"];
byId("title").textContent = data.model || data.name || data.command || data.format;
byId("subtitle").textContent = data.command ? `ebbtide ${data.command}` : `a file of the form ${data.format}`;
if (data.command === "fit" && data.gpus.length > 0) byId("parts").append(batches(data.gpus));
const texts = {};
for (const [name, value] of Object.entries(data)) {
  if (kept.includes(name)) continue;
  if (/_ns$/.test(name) && value === 0) continue;  // not timed
  if (isNumber(value) || typeof value === "boolean") {
    byId("figures").append(figure(words(name), show(name, value)));
  } else if (isCurve(name, value)) {
    byId("parts").prepend(curve(name, value));
  } else if (Array.isArray(value) && value.length > 0 && value.every(isObject)) {
    byId("parts").append(rows(name, value));
  } else if (isObject(value) && Object.keys(value).length > 0) {
    byId("parts").append(Object.values(value).every(isNumber) ? bars(name, value) : values(name, value));
  } else if (value !== null && !(Array.isArray(value) && value.length === 0)) {
    texts[name] = value;
  }
}
if (Object.keys(texts).length > 0) byId("parts").append(values("said", texts));
searchable();
onTheme(() => {});
