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
  return Number.isInteger(value) ? count(value) : value.toPrecision(4);
};
const cell = (tag, name, value, isHead) =>
  element(tag, isNumber(value) || (isHead && value) ? "number" : "", isHead ? words(name) : show(name, value));
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
  const columns = [...new Set(list.flatMap(Object.keys))].filter((key) => !list.some((item) => Array.isArray(item[key]) && item[key].some(isObject)));
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
const kept = ["schema_version", "command", "model", "name"];
byId("title").textContent = data.model || data.name || data.command;
byId("subtitle").textContent = `ebbtide ${data.command}`;
const texts = {};
for (const [name, value] of Object.entries(data)) {
  if (kept.includes(name)) continue;
  if (isNumber(value) || typeof value === "boolean") {
    byId("figures").append(figure(words(name), show(name, value)));
  } else if (Array.isArray(value) && value.length > 0 && value.every(isObject)) {
    byId("parts").append(rows(name, value));
  } else if (isObject(value) && Object.keys(value).length > 0) {
    byId("parts").append(Object.values(value).every(isNumber) ? bars(name, value) : values(name, value));
  } else if (value !== null && !(Array.isArray(value) && value.length === 0)) {
    texts[name] = value;
  }
}
if (Object.keys(texts).length > 0) byId("parts").append(values("said", texts));
onTheme(() => {});
