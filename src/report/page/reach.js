// How a page is moved about in: wheel and keys for its chart, a search over its tables, the head that says what it is of.

// A chart over [0, whole] that shows a part of it. `view()` is that part, `show(from, to)` changes it, `margin` the pixels left and
// right of the plot, `least` the shortest part. `hover(px, py, clientX, clientY)` tells what is at a pixel, `pick(px)`, where there is
// one, chooses it. W and S, plus and minus and the wheel zoom, A and D and the wheel with shift move; with the chart in focus, arrows
// move a cross-hair and Enter picks.
const navigable = (canvas, { whole, view, show, margin, least, hover, pick, leave }) => {
  const inner = () => canvas.clientWidth - margin.left - margin.right;
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  const part = (px) => clamp((px - margin.left) / inner(), 0, 1);
  const go = (from, length) => {
    const size = clamp(length, Math.min(least, whole), whole), begin = clamp(from, 0, whole - size);
    const [was, to] = view();
    if (Math.abs(begin - was) < 1e-9 * whole && Math.abs(begin + size - to) < 1e-9 * whole) return false;
    show(begin, begin + size);
    return true;
  };
  const zoom = (factor, share = 0.5) => {
    const [from, to] = view(), length = clamp((to - from) * factor, Math.min(least, whole), whole);
    return go(from + share * (to - from) - share * length, length);
  };
  const move = (share) => { const [from, to] = view(); return go(from + share * (to - from), to - from); };
  canvas.addEventListener("wheel", (event) => {
    const box = canvas.getBoundingClientRect(), down = event.deltaY || event.deltaX;
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const changed = sideways ? move(down > 0 ? 0.1 : -0.1) : zoom(down > 0 ? 1.25 : 0.8, part(event.clientX - box.left));
    if (changed) { event.preventDefault(); if (leave) leave(); }
  }, { passive: false });

  canvas.tabIndex = 0;
  let cross = null;
  const point = () => {
    const box = canvas.getBoundingClientRect();
    hover(cross[0], cross[1], box.left + cross[0], box.top + cross[1]);
  };
  const keys = {
    w: () => zoom(0.8), s: () => zoom(1.25), a: () => move(-0.15), d: () => move(0.15),
    "+": () => zoom(0.8), "-": () => zoom(1.25), "=": () => zoom(0.8), 0: () => go(0, whole),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const act = keys[event.key.toLowerCase()];
    if (!act) return;
    event.preventDefault();
    act();
    if (leave) leave();
  });
  canvas.addEventListener("keydown", (event) => {
    const across = { ArrowLeft: -1, ArrowRight: 1 }[event.key] || 0, up = { ArrowUp: -1, ArrowDown: 1 }[event.key] || 0;
    if (event.key === "Escape" && leave) { leave(); return; }
    if (event.key === "Enter" && pick && cross) { pick(cross[0]); return; }
    if (event.key === "Home" || event.key === "End") {
      const [from, to] = view();
      go(event.key === "Home" ? 0 : whole, to - from);
      event.preventDefault();
      return;
    }
    if (!across && !up) return;
    event.preventDefault();
    if (!cross) cross = [margin.left + inner() / 2, canvas.clientHeight / 2];
    else cross = [clamp(cross[0] + across * Math.max(1, inner() / 120), margin.left, margin.left + inner()), clamp(cross[1] + up * 6, 0, canvas.clientHeight)];
    point();
  });
  canvas.addEventListener("blur", () => { cross = null; if (leave) leave(); });
};

// The search field: rows of tables that do not hold what is written there are hidden. `also(words)` is told of every change.
const searchable = (also) => {
  const field = byId("search");
  field.hidden = false;
  const apply = () => {
    const words = field.value.trim().toLowerCase();
    if (also) also(words);
    for (const row of document.querySelectorAll("main tbody tr, #parts tr")) {
      if (row.querySelector("th") || row.closest("#top") || row.closest("#categories")) continue;
      row.hidden = words !== "" && !row.textContent.toLowerCase().includes(words);
    }
  };
  field.addEventListener("input", apply);
  field.addEventListener("keydown", (event) => { if (event.key === "Escape") { field.value = ""; apply(); field.blur(); } });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(INPUT|TEXTAREA)$/.test(event.target.tagName)) return;
    event.preventDefault();
    field.focus();
  });
};

// What this is of, as far as it is known.
{
  const about = data.about || { facts: [], verdict: "none", says: "" }, made = JSON.parse(byId("provenance").textContent);
  const facts = [...about.facts, ["made", made.date], ["Ebbtide", made.version], ["command", made.command]].filter(([, value]) => value);
  byId("facts").append(...facts.map(([name, value]) => {
    const node = element("div", name === "command" || name === "program" ? "wide" : "");
    node.append(element("dt", "", name), element("dd", name === "command" || name === "program" ? "code" : "", value));
    return node;
  }));
  if (about.says) {
    byId("verdict").textContent = about.says;
    byId("verdict").className = about.verdict;
    byId("verdict").hidden = false;
  }
  byId("about").hidden = facts.length === 0 && !about.says;
}
