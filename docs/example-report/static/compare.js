"use strict";

function startPage() {
  const data = JSON.parse($("#data").textContent);
  const form = $("#pair"), filterForm = $("#flip-filter");
  fill(form, given());
  fill(filterForm, given());
  if (form.a.value === form.b.value && form.b.options.length > 1) form.b.selectedIndex = form.a.selectedIndex ? 0 : 1;
  const show = async () => {
    const newest = await newestRows(form.a.value, form.b.value);
    if (!newest) return;
    const [a, b] = newest;
    const filter = valuesOf(filterForm);
    $("#compared").hidden = form.a.value === form.b.value;
    showDifference(data, form.a.selectedIndex, form.b.selectedIndex);
    const pairs = window.SP_INDEX.cases
      .map((row, i) => ({ row, a: readOutcome(a[i]), b: readOutcome(b[i]), change: changeOf(a[i], b[i]) }))
      .filter((pair) => pair.change);
    showCrosstab(pairs);
    showRuleFlips(pairs);
    showFlips(pairs, filter, form);
    remember({ ...valuesOf(form), ...filter });
  };
  form.addEventListener("input", show);
  filterForm.addEventListener("input", show);
  for (const each of [form, filterForm]) each.addEventListener("submit", (event) => event.preventDefault());
  $("#swap").addEventListener("click", () => {
    [form.a.value, form.b.value] = [form.b.value, form.a.value];
    show();
  });
  show();
}

function changeOf(textA, textB) {
  const a = readOutcome(textA), b = readOutcome(textB);
  if (!a || !b) return null;
  if (a.kind === "exact" || b.kind === "exact") return a.kind === b.kind ? "both" : b.kind === "exact" ? "fixed" : "broken";
  const silent = [a, b].filter((each) => each.kind === "unanswered").length;
  return silent === 2 || textA === textB ? "same" : "moved";
}

const METRICS = { rmr: "RMR ↑", "rmr@1.0": "RMR@1.0 ↑", rdr: "RDR ↓", rmr_lower_bound: "RMR, unanswered as misses ↑" };

function showDifference(data, i, j) {
  const rows = i === j ? [] : data.rows[i < j ? `${i}|${j}` : `${j}|${i}`] ?? [];
  const alone = $("#pair").a.options.length < 2;
  $("#pair").hidden = alone;
  $("#pair-warning").textContent = alone ? "This report has one run: there is nothing to compare it with."
    : i === j ? "Choose two different runs." : data.warnings[i < j ? `${i}|${j}` : `${j}|${i}`] ?? "";
  const heads = ["Level", "A", "B", "B − A", "95 % interval", "p", "p (Holm)", "Cases"];
  $("#difference").replaceChildren(
    element("thead", element("tr", heads.map((head, n) => element("th", head, { scope: "col", class: n ? (head === "p" ? "num raw" : "num") : null })))),
    ...Object.entries(METRICS).map(([metric, name]) => element("tbody", [
      element("tr", element("th", name, { scope: "rowgroup", colspan: heads.length }), { class: "group" }),
      ...rows.filter((row) => row.metric === metric).map((row) => differenceRow(row, i > j)),
    ])),
  );
  $("#difference").closest("section").hidden = !rows.length;
  if (rows.length) $("#pair-warning").append(" ", testNote(data, rows));
}

function testNote(data, rows) {
  const full = "`safepyramid compare A B` tests two runs in full.";
  if (data.tested === "none") return `With this many runs, intervals and tests were left out: ${full}`;
  if (rows.every((row) => row.p == null)) return "They share too few conversations for intervals and tests.";
  if (data.least >= 0.05) return `With this many pairs of runs, no p (Holm) can be below ${data.least.toFixed(3)}: ${full}`;
  return data.tested === "pooled" ? `With this many runs, only RMR over all levels was tested: ${full}` : "";
}

/* Bold is what holds with all pairs of the report in mind. */
function differenceRow(row, swapped) {
  const [first, second] = swapped ? [row.second, row.first] : [row.first, row.second];
  const [low, high] = swapped ? [row.high, row.low] : [row.low, row.high];
  const signed = (value) => points(value == null || !swapped ? value : -value);
  const number = (content, kind = "") => element("td", content, { class: `num ${kind}`.trim() });
  const chance = (p) => (p == null ? "–" : p < 0.001 ? "< 0.001" : p.toFixed(3));
  return element("tr", [
    element("th", row.level === "ALL" ? "all" : row.level, { scope: "row" }),
    number(percent(first)), number(percent(second)),
    number(element(row.p_holm != null && row.p_holm < 0.05 ? "b" : "span", signed(row.difference))),
    number(low == null ? "–" : `${signed(low)} to\u00a0${signed(high)}`, "wrap"),
    number(chance(row.p), "raw"), number(chance(row.p_holm)),
    number([thousands(row.cases), row.dropped ? element("span", ` ${thousands(row.dropped)} left out`, { class: "ci" }) : null], "wrap"),
  ], { "data-row": `${row.metric}|${row.level}` });
}

function showCrosstab(pairs) {
  const kinds = { both: "both exact", fixed: "only B exact", broken: "only A exact", moved: "neither, with other outcomes", same: "neither, with the same outcome" };
  const levels = ["L0", "L1", "L2"].filter((level) => pairs.some((pair) => pair.row[2] === level));
  const groups = [...levels.map((level) => pairs.filter((pair) => pair.row[2] === level)), pairs];
  table($("#crosstab"), ["Exact matches", ...levels, "all"], [
    ...Object.entries(kinds).map(([kind, name]) => [name, ...groups.map((group) => group.filter((pair) => pair.change === kind).length)]),
    ["asked of both", ...groups.map((group) => group.length)],
  ]);
}

function showRuleFlips(pairs) {
  const counts = {};
  for (const { a, b } of pairs) {
    if (a.kind === "unanswered" || b.kind === "unanswered") continue;
    const [inA, inB] = [a, b].map((each) => new Set(each.errors.map((error) => error.key)));
    const add = (errors, name, test) => {
      for (const error of errors.filter(test)) (counts[error.type] ??= { both: 0, fixed: 0, broken: 0 })[name] += 1;
    };
    add(a.errors, "fixed", (error) => !inB.has(error.key));
    add(a.errors, "both", (error) => inB.has(error.key));
    add(b.errors, "broken", (error) => !inA.has(error.key));
  }
  const types = Object.values(window.SP_INDEX.types).filter((type) => counts[type]);
  table($("#rule-flips"), ["Errors put down to", "in both", "only in A", "only in B"], types.map((type) => [type, counts[type].both, counts[type].fixed, counts[type].broken]));
}

function table(target, heads, rows) {
  target.replaceChildren(
    element("thead", element("tr", heads.map((head, n) => element("th", head, { scope: "col", class: n ? "num" : null })))),
    element("tbody", rows.map((row) => element("tr", row.map((cell, n) => n
      ? element("td", thousands(cell), { class: "num" }) : element("th", cell, { scope: "row" }))))),
  );
}

function showFlips(pairs, filter, form) {
  const kinds = { flipped: ["fixed", "broken"], a: ["broken"], b: ["fixed"], changed: ["moved"] }[filter.flip];
  const found = pairs.filter(({ row, a, b, change }) => kinds.includes(change)
    && (!filter.level || filter.level === row[2]) && (!filter.domain || filter.domain === row[3])
    && (!filter.type || [...a.errors, ...b.errors].some((error) => error.type === filter.type)));
  $("#count").textContent = counted(found.length, "case");
  const text = (outcome) => outcome.kind === "unanswered" ? outcome.state : outcome.kind === "exact" ? "exact"
    : [missed(outcome) && `○\u00a0missed ${missed(outcome)}`, flagged(outcome) && `▲\u00a0flagged ${flagged(outcome)}`].filter(Boolean).join("; ");
  showRows($("#flip-list tbody"), found, ({ row: [slug, id, level, domain], a, b, change }) => {
    const run = change === "fixed" ? form.a.value : form.b.value;
    return element("tr", [
      element("th", element("a", id, { href: `case/${encodeURIComponent(slug)}.html?${asQuery({ run })}` }), { scope: "row" }),
      element("td", level), element("td", words(domain), { class: "domain" }), labelled("A", text(a)), labelled("B", text(b)),
    ]);
  });
}
