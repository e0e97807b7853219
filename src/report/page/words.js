// What the scripts of all pages share: elements, numbers in words, colours of the style, light and dark.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const element = (name, className, text) => {
  const node = document.createElement(name);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const formatBytes = (bytes) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0, value = bytes;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) { value /= 1024; ++unit; }
  return unit === 0 ? `${value} B` : `${value.toFixed(2)} ${units[unit]}`;
};
const count = (number) => number.toLocaleString("en-US");
const share = (part, whole) => whole > 0 ? `${(100 * part / whole).toFixed(part / whole < 0.0995 ? 1 : 0)} %` : "";
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const dot = (category) => {
  const node = element("i", "dot");
  node.style.background = `var(--${category})`;
  return node;
};
// A round step for an axis from 0 to `most` bytes with about `lines` lines, and its unit.
const niceStep = (most, lines) => {
  const unit = most >= 2 ** 31 ? 2 ** 30 : most >= 2 ** 21 ? 2 ** 20 : most >= 2 ** 11 ? 2 ** 10 : 1;
  const rough = most / unit / lines, power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  const nice = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
  return [nice * unit, unit];
};
const unitName = (unit) => ({ [2 ** 30]: "GiB", [2 ** 20]: "MiB", [2 ** 10]: "KiB", 1: "B" })[unit];
// Lines across [left, right] at round numbers of bytes from 0 to `top`, which `y` places, with the numbers beside them.
const byteAxis = (ctx, top, lines, y, left, right) => {
  const [step, unit] = niceStep(top, lines);
  ctx.font = "12px system-ui, sans-serif";
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  for (let bytes = 0; bytes <= top; bytes += step) {
    const line = Math.round(y(bytes)) + 0.5;
    ctx.strokeStyle = color("grid");
    ctx.beginPath(); ctx.moveTo(left, line); ctx.lineTo(right, line); ctx.stroke();
    ctx.fillStyle = color("faint");
    ctx.fillText(`${+(bytes / unit).toFixed(2)} ${unitName(unit)}`, left - 8, line);
  }
};
// A number with a name, and where `filled` is given a meter, which may alarm.
const figure = (label, value, note, filled, alarm = false) => {
  const node = element("div", "figure");
  node.append(element("div", "label", label), element("div", "value", value));
  if (filled !== undefined) {
    const meter = element("div", alarm ? "meter full" : "meter"), bar = element("i");
    bar.style.width = `${Math.min(100, 100 * filled)}%`;
    meter.append(bar);
    node.append(meter);
  }
  if (note) node.append(element("div", "note", note));
  return node;
};
const showTooltip = (nodes, clientX, clientY) => {
  const tooltip = byId("tooltip");
  tooltip.replaceChildren(...nodes);
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = clientX + 16 + box.width > innerWidth ? clientX - 16 - box.width : clientX + 16;
  tooltip.style.left = `${Math.max(4, left)}px`;
  tooltip.style.top = `${Math.max(4, Math.min(clientY + 14, innerHeight - box.height - 8))}px`;
};
// Calls `draw` whenever the colours change.
const onTheme = (draw) => {
  byId("theme").addEventListener("click", () => {
    const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme || (dark ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  // Paper is light.
  let before;
  window.addEventListener("beforeprint", () => { before = document.documentElement.dataset.theme; document.documentElement.dataset.theme = "light"; draw(); });
  window.addEventListener("afterprint", () => {
    if (before) document.documentElement.dataset.theme = before; else delete document.documentElement.dataset.theme;
    draw();
  });
};
