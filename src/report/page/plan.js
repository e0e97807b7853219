// A plan's page: its figures, what it moves, what it waits for, other policies, time over budget.
{
  const row = (...cells) => {
    const tr = element("tr");
    tr.append(...cells);
    return tr;
  };
  const number = (value) => element("td", "number", value);

  const fillFigures = () => {
    byId("title").textContent = data.model;
    byId("subtitle").textContent = data.subtitle;
    if (data.failures.length) {
      byId("failures").append(element("b", "", "Infeasible"), ...data.failures.map((line) => element("div", "", line)));
      byId("failures").hidden = false;
    }
    const add = (...parts) => byId("figures").append(figure(...parts));
    if (data.feasible) {
      add("peak", formatBytes(data.peak_bytes), `${share(data.peak_bytes, data.plain_peak_bytes)} of plain; the budget is ${formatBytes(data.budget_bytes)}`, data.peak_bytes / data.plain_peak_bytes);
      add("iteration", formatTime(data.time_ns), `${slowdown(data.time_ns)} of plain, ${formatTime(data.plain_time_ns)}`);
      if (data.gap !== null) add("no plan is faster than", formatTime(data.lower_bound_ns), `${slowdown(data.lower_bound_ns)} of plain; this one takes ${percent(data.gap)} more`);
      else add("without a plan", formatTime(data.plain_time_ns), formatBytes(data.plain_peak_bytes));
      add("waiting", formatTime(data.wait_for_memory_ns + data.wait_for_data_ns + (data.wait_for_ranks_ns || 0) + data.drain_ns), data.exchange_ns > 0 ? "of compute, for copies and other ranks" : "of compute, for copies");
      add("kept", formatBytes(data.kept.bytes), `${things(data.kept.storages, "storage")} saved for backward`);
      add("swapped", formatBytes(data.swapped.bytes), `${things(data.swapped.storages, "storage")}, ${formatBytes(data.copied_out_bytes)} out, ${formatBytes(data.copied_in_bytes)} in`);
      add("recomputed", formatBytes(data.recomputed.bytes), `${things(data.recomputed.storages, "storage")}, ${formatTime(data.recompute_ns)}`);
      add("pinned host memory", formatBytes(data.host_peak_bytes), "at most at a time");
    } else {
      add("budget", formatBytes(data.budget_bytes), `${share(data.budget_bytes, data.plain_peak_bytes)} of plain`);
      add("smallest that works", formatBytes(data.minimum_budget_bytes), "found");
      add("floor", formatBytes(data.floor_bytes), "no plan can do with less");
      add("without a plan", formatBytes(data.plain_peak_bytes), formatTime(data.plain_time_ns));
    }
  };
  const fillTime = (chart) => {
    const parts = [["ops of the step", data.time_ns - data.recompute_ns - data.wait_for_memory_ns - data.wait_for_data_ns - (data.wait_for_ranks_ns || 0) - data.drain_ns, "forward"], ["ops run again", data.recompute_ns, "again"],
      ["waiting for memory", data.wait_for_memory_ns, "wait-memory"], ["waiting for data", data.wait_for_data_ns, "wait-data"],
      ...(data.exchange_ns > 0 ? [["waiting for other ranks", data.wait_for_ranks_ns, "wait-data"]] : []),
      ["last copies", data.drain_ns, "copy"]];
    byId("share").append(...parts.filter(([, ns]) => ns > 0).map(([, ns, style]) => {
      const piece = element("i");
      Object.assign(piece.style, { flex: `0 0 ${100 * ns / data.time_ns}%`, background: `var(--${style})` });
      return piece;
    }));
    byId("parts").append(...parts.map(([name, ns, style]) => {
      const label = element("td");
      label.append(dot(style), name);
      return row(label, number(formatTime(ns)), number(share(ns, data.time_ns)));
    }));
    const longest = [...data.stalls].sort((a, b) => b[1] - a[1]).slice(0, 12);
    byId("stall-count").textContent = data.stalls.length > longest.length ? `${longest.length} of ${count(data.stalls.length)}` : "";
    byId("stalls").append(...longest.map(([begin, length, cause, op, storage, bytes]) => {
      const kind = element("td", "kind");
      kind.append(dot(CAUSES[cause]), CAUSE_NAMES[cause]);
      const tr = row(number(formatTime(length)), number(formatTime(begin)), kind, element("td", "name", storage >= 0 ? `${text(storage)}, ${formatBytes(bytes)}` : ""), element("td", "name", op >= 0 ? text(op) : "the end"));
      tr.style.cursor = "pointer";
      tr.title = "Show it in the timeline";
      tr.tabIndex = 0;
      const reveal = () => { chart.show(begin - 3 * length, begin + 4 * length); byId("over-time").scrollIntoView({ behavior: "smooth" }); };
      tr.addEventListener("click", reveal);
      tr.addEventListener("keydown", (event) => { if (event.key === "Enter") reveal(); });
      return tr;
    }));
    byId("no-stalls").hidden = longest.length > 0;
    byId("stalls").closest("table").hidden = longest.length === 0;
    byId("time").hidden = false;
  };
  const fillMoved = () => {
    for (const [id, swapped, all] of [["swapped", 1, data.swapped], ["recomputed", 0, data.recomputed]]) {
      const listed = data.moved.filter((moved) => moved[2] === swapped);
      byId(`${id}-count`).textContent = all.storages > listed.length ? `${listed.length} of ${count(all.storages)}` : things(all.storages, "storage");
      byId(id).append(...listed.map(([bytes, name, , returns, leaves, comes, cost]) => {
        const away = number(`${formatTime(comes - leaves)}${returns > 1 ? `, ${returns} times` : ""}`);
        away.title = `from ${formatTime(leaves)} to ${formatTime(comes)}`;
        return row(number(formatBytes(bytes)), element("td", "name", text(name)), away, number(formatTime(cost)));
      }));
      byId(id).closest("section").hidden = listed.length === 0;
    }
    byId("moved").hidden = data.moved.length === 0;
  };
  const fillPolicies = () => {
    const longest = Math.max(data.plain_time_ns, ...data.policies.map((policy) => policy.time_ns || 0));
    byId("policies").append(...data.policies.map((policy) => {
      const cell = element("td"), track = element("div", "track"), bar = element("i", policy.policy === data.policy ? "mine" : ""), plain = element("u");
      if (policy.feasible) {
        bar.style.width = `${100 * policy.time_ns / longest}%`;
        plain.style.left = `${100 * data.plain_time_ns / longest}%`;
        plain.title = `without a plan ${formatTime(data.plain_time_ns)}`;
        track.append(bar, plain);
      }
      cell.append(track);
      const tr = row(element("td", "", policy.policy), cell, number(policy.feasible ? formatTime(policy.time_ns) : "infeasible"),
        number(policy.feasible ? slowdown(policy.time_ns) : ""), number(policy.feasible ? formatBytes(policy.peak_bytes) : ""));
      tr.className = !policy.feasible ? "off" : policy.policy === data.policy ? "mark" : "";
      return tr;
    }));
    byId("compared").hidden = false;
  };

  const fillPoints = () => {
    byId("points").append(...data.pareto.map((point) => {
      const tr = row(number(formatBytes(point.budget_bytes)), number(percent(point.budget_bytes / data.plain_peak_bytes)),
        number(point.feasible ? formatTime(point.time_ns) : "infeasible"), number(point.feasible ? slowdown(point.time_ns) : ""),
        number(point.feasible && data.bounded ? slowdown(point.lower_bound_ns) : ""), number(point.feasible && data.bounded ? percent(point.time_ns / point.lower_bound_ns - 1) : ""));
      tr.className = !point.feasible ? "off" : point.budget_bytes === data.budget_bytes ? "mark" : "";
      return tr;
    }));
    const entry = (style, label, dashed) => {
      const node = element("span"), line = element("i", dashed ? "dash dashed" : "dash");
      line.style.borderColor = `var(--${style})`;
      node.append(line, label);
      byId("trade-off-legend").append(node);
    };
    entry("accent", "plans found");
    if (data.bounded) entry("bound", "no plan is faster", true);
    const node = element("span"), area = dot("alarm");
    area.style.opacity = 0.25;
    node.append(area, "no plan found");
    byId("trade-off-legend").append(node);
    byId("trade-off").hidden = false;
    drawCurve();
    new ResizeObserver(drawCurve).observe(byId("curve"));
  };

  fillFigures();
  const chart = data.feasible ? drawPlan() : null;
  if (chart) {
    fillTime(chart);
    fillMoved();
    chart.draw();
    onTheme(chart.draw);
  } else {
    onTheme(() => {});
  }
  if (data.policies) fillPolicies();
  if (data.pareto) fillPoints();
  searchable();
}
