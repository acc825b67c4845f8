"use strict";

function startPage() {
  const data = JSON.parse($("#data").textContent);
  const form = $("#board-controls");
  fill(form, given());
  const show = () => {
    const view = valuesOf(form);
    const where = `${view.domain}|${view.level}`;
    for (const block of all(".block")) {
      const isPublished = "published" in block.dataset;
      block.hidden = (view.protocol && view.protocol !== block.dataset.protocol)
        || (isPublished && (!view.published || view.domain !== ""));
      for (const row of all("tbody tr", block)) showRow(row, data[row.dataset.row], view, where);
      for (const cell of all(".level", block)) cell.classList.toggle("chosen", cell.dataset.level === view.level);
      sortTable($("table", block));
    }
    const name = form.metric.selectedOptions[0].text;
    const level = view.level === "ALL" ? "all levels" : view.level;
    const domain = view.domain ? words(view.domain) : "all domains";
    $("#board-says").textContent = `Shown: ${name}, ${domain}. Place: by RMR over ${level} with every case that was not answered as a miss.`
      + (view.domain && form.published ? " Published rows have no numbers by domain here." : "");
    remember({ ...view, metric: view.metric === "rmr" ? "" : view.metric, level: view.level === "ALL" ? "" : view.level, baselines: "", published: "" });
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of all("button[data-sort]")) button.addEventListener("click", () => {
    const table = button.closest("table"), head = button.closest("th");
    const first = button.dataset.sort === "place" || button.dataset.sort === "name" || (form.metric.value === "rdr" && head.dataset.level) ? "ascending" : "descending";
    const other = first === "ascending" ? "descending" : "ascending";
    const direction = head.getAttribute("aria-sort") === first ? other : first;
    for (const each of all("thead th", table)) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction);
    sortTable(table);
  });
  for (const table of all("table.board")) all("tbody tr", table).forEach((row, i) => { row.order = i; });
  show();
}

function showRow(row, numbers, view, where) {
  row.hidden = row.dataset.kind === "baseline" && !view.baselines;
  row.keys = { name: $("th", row).textContent.trim().toLowerCase() };
  for (const cell of all(".level", row)) {
    const [value, low, high] = numbers.cells[`${view.metric}|${view.domain}|${cell.dataset.level}`] || [];
    row.keys[cell.dataset.level] = value;
    cell.replaceChildren(element("span", percent(value), { class: "v" }));
    if (low != null) cell.append(" ", element("span", `${percent(low)}–${percent(high)}`, { class: "ci" }));
  }
  draw($("svg", row), numbers.cells[`${view.metric}|${where}`] || []);
  const bound = (numbers.cells[`rmr_lower_bound|${where}`] || [])[0];
  const [rank, best, worst] = numbers.place[where] || [];
  const [scored, total] = numbers.scored[where] || [];
  $(".bound", row).textContent = percent(bound);
  $(".place", row).replaceChildren(rank == null ? "–" : String(rank));
  if (best != null) $(".place", row).append(" ", element("span", `${best}–${worst}`, { class: "ci" }));
  $(".scored", row).textContent = total == null ? "–" : `${thousands(scored)} / ${thousands(total)}`;
  Object.assign(row.keys, { bound, place: rank, scored });
}

function draw(svg, [value, low, high]) {
  const x = (share) => (3 + 94 * share).toFixed(1);
  for (const old of all(".dot, .whisker", svg)) old.remove();
  svg.setAttribute("aria-label", percent(value) + (low == null ? "" : ` (${percent(low)} to ${percent(high)})`));
  const shape = (name, attributes) => {
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const [key, each] of Object.entries(attributes)) made.setAttribute(key, each);
    svg.append(made);
  };
  if (low != null) shape("line", { class: "whisker", x1: x(low), x2: x(high), y1: 8, y2: 8 });
  if (value != null) shape("circle", { class: "dot", cx: x(value), cy: 8, r: 3.5 });
}

/* Undefined values come last in both directions, and equal ones stay in their first order. */
function sortTable(table) {
  const head = $("th[aria-sort]", table), key = $("button", head).dataset.sort;
  const sign = head.getAttribute("aria-sort") === "ascending" ? 1 : -1;
  const compare = (a, b) => {
    const [x, y] = [a.keys[key], b.keys[key]];
    if (x == null || y == null) return (x == null) - (y == null) || a.order - b.order;
    return sign * (x < y ? -1 : x > y ? 1 : 0) || a.order - b.order;
  };
  $("tbody", table).append(...all("tbody tr", table).sort(compare));
}
