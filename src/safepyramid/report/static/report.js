"use strict";
(() => {
  const PAGE_ROWS = 200;
  const SIGNS = { found: "●", missed: "○", flagged: "▲", clear: "·", unanswered: "?", none: "–" };
  const WORDS = {
    found: "● found", missed: "○ missed", flagged: "▲ flagged, not violated", clear: "· rightly left out",
    unanswered: "? no verdict", none: "– not asked",
  };
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const percent = (value) => (value == null ? "–" : (100 * value).toFixed(1));
  const points = (value) => {
    if (value == null) return "–";
    const size = Math.abs(100 * value).toFixed(1);
    return size === "0.0" ? size : (value < 0 ? "−" : "+") + size;
  };
  const words = (name) => name.replaceAll("_", " ");

  /* An element with text, never markup: what models say goes through here. */
  function element(name, content, attributes = {}) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value != null) made.setAttribute(key, value);
    for (const part of [content].flat()) if (part != null) made.append(part);
    return made;
  }

  function stored(key, value) {
    try {
      if (value === undefined) return localStorage.getItem(key);
      localStorage.setItem(key, value);
    } catch { /* private windows have no storage: nothing is remembered */ }
    return null;
  }

  const THEMES = ["auto", "light", "dark"];
  let theme = THEMES.includes(stored("safepyramid-theme")) ? stored("safepyramid-theme") : "auto";
  function setTheme(name) {
    theme = name;
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    const button = $("#theme-button");
    if (button) button.textContent = `Theme: ${name}`;
  }
  setTheme(theme);

  function nextTheme() {
    setTheme(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]);
    stored("safepyramid-theme", theme);
  }

  /* ---- the address keeps what is chosen, so that a view can be linked and gone back to */

  const given = () => new URLSearchParams(location.search);
  function remember(values) {
    const query = asQuery(values);
    try { history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash); } catch { /* some browsers forbid it on disk */ }
  }
  function asQuery(values) {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(values)) if (value) query.set(key, value);
    return query.toString();
  }
  const valuesOf = (form) => Object.fromEntries(new FormData(form));
  function fill(form, params) {
    for (const field of form.elements) {
      if (!field.name || !params.has(field.name)) continue;
      const value = params.get(field.name);
      if (field.tagName !== "SELECT" || [...field.options].some((option) => option.value === value && !option.disabled)) field.value = value;
    }
  }

  /* ---- how cases went, from the data files */

  const loading = {};
  function runRows(slug) {
    loading[slug] ||= new Promise((resolve, reject) => {
      const script = element("script", null, { src: `${document.body.dataset.root}data/${encodeURIComponent(slug)}.js` });
      script.onload = () => resolve(window.SP_RUNS[slug]);
      script.onerror = () => reject(new Error(`data/${slug}.js is missing`));
      document.head.append(script);
    });
    return loading[slug];
  }

  /* The rows of these runs, or null where a later choice has overtaken this one. */
  let asked = 0;
  async function newestRows(...slugs) {
    const mine = ++asked;
    $("#main").setAttribute("aria-busy", "true");
    const rows = await Promise.all(slugs.map(runRows));
    if (mine !== asked) return null;
    $("#main").removeAttribute("aria-busy");
    return rows;
  }

  function readOutcome(text) {
    if (text == null) return null;
    const [head, ...rest] = text.split(" ");
    if (!/^[0-9a-f]$/.test(head)) return { state: head, kind: "unanswered", modes: [], errors: [] };
    const mask = parseInt(head, 16);
    const modes = window.SP_INDEX.modes.filter((_, i) => mask & (1 << i));
    const errors = rest.map((each) => ({
      key: each, missed: each[0] === "-", rule: Number(each.slice(1, -1)), type: window.SP_INDEX.types[each.at(-1)],
    }));
    return { state: "answered", kind: errors.length ? "wrong" : "exact", modes, errors };
  }

  function chosen(row, outcome, filter) {
    const [, id, level, domain] = row;
    return Boolean(outcome)
      && (!filter.outcome || filter.outcome === outcome.kind || (filter.outcome === "failed" && outcome.kind !== "exact"))
      && (!filter.level || filter.level === level)
      && (!filter.domain || filter.domain === domain)
      && (!filter.type || outcome.errors.some((error) => error.type === filter.type))
      && (!filter.mode || outcome.modes.includes(filter.mode))
      && (!filter.q || id.toLowerCase().includes(filter.q.toLowerCase()));
  }

  const listed = (errors) => errors.map((error) => `${error.rule} (${error.type})`).join(", ") || "–";
  const missed = (outcome) => outcome.errors.filter((error) => error.missed);
  const flagged = (outcome) => outcome.errors.filter((error) => !error.missed);

  function showRows(body, rows, make) {
    const more = $("#more");
    let shown = 0;
    const next = () => {
      body.append(...rows.slice(shown, shown + PAGE_ROWS).map(make));
      shown = Math.min(rows.length, shown + PAGE_ROWS);
      more.hidden = shown >= rows.length;
    };
    body.replaceChildren();
    more.onclick = next;
    next();
  }

  /* ---- pages */

  function leaderboard() {
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
    $(".scored", row).textContent = total == null ? "–" : `${scored.toLocaleString("en")} / ${total.toLocaleString("en")}`;
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

  function caseList() {
    const form = $("#walk");
    fill(form, given());
    const show = async () => {
      const filter = valuesOf(form);
      const newest = await newestRows(filter.run);
      if (!newest) return;
      const [rows] = newest;
      const found = window.SP_INDEX.cases
        .map((row, i) => [row, readOutcome(rows[i])])
        .filter(([row, outcome]) => chosen(row, outcome, filter));
      const ran = rows.filter((row) => row != null).length;
      $("#count").textContent = `${found.length.toLocaleString("en")} of ${ran.toLocaleString("en")} cases of this run`;
      const query = asQuery({ ...filter, q: "" });
      showRows($("#case-list tbody"), found, ([[slug, id, level, domain], outcome]) => element("tr", [
        element("th", element("a", id, { href: `case/${encodeURIComponent(slug)}.html?${query}` }), { scope: "row" }),
        element("td", level), element("td", words(domain)),
        element("td", outcome.kind === "unanswered" ? outcome.state : outcome.kind),
        element("td", listed(missed(outcome))), element("td", listed(flagged(outcome))),
        element("td", outcome.modes.join(", ") || "–"),
      ]));
      remember(filter);
    };
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    show();
  }

  function casePage() {
    const data = JSON.parse($("#data").textContent);
    const form = $("#walk");
    const said = new Map(data.runs.map((each) => [each.run, each]));
    for (const option of form.run.options) option.disabled = !said.has(option.value);
    form.run.value = said.has(stored("safepyramid-run")) ? stored("safepyramid-run") : data.runs[0].run;
    fill(form, given());
    const own = window.SP_INDEX.cases.findIndex((row) => row[0] === data.case);
    const show = () => {
      const values = valuesOf(form);
      stored("safepyramid-run", values.run);
      showVerdict(said.get(values.run), form.run.selectedOptions[0].text);
      showRules(data.rules, said.get(values.run));
      showMatrix(data, values.run, form);
      showReply(said.get(values.run));
      remember(values);
      $("#back").href = `../cases.html?${asQuery(values)}`;
      walk(values, own);
    };
    form.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    show();
  }

  async function walk(filter, own) {
    const newest = await newestRows(filter.run);
    if (!newest) return;
    const [rows] = newest;
    const cases = window.SP_INDEX.cases;
    const found = cases.map((_, i) => i).filter((i) => chosen(cases[i], readOutcome(rows[i]), filter));
    const at = found.indexOf(own);
    const target = { previous: found.filter((i) => i < own).at(-1), next: found.find((i) => i > own) };
    for (const [name, i] of Object.entries(target)) {
      const link = $(`#${name}`);
      if (i == null) { link.removeAttribute("href"); link.setAttribute("aria-disabled", "true"); continue; }
      link.removeAttribute("aria-disabled");
      link.href = `${encodeURIComponent(cases[i][0])}.html?${asQuery(filter)}`;
    }
    $("#where").textContent = at < 0 ? `not among the ${found.length}` : `${at + 1} of ${found.length}`;
  }

  function showVerdict(said, name) {
    const outcome = readOutcome(said.outcome);
    const box = $("#verdict");
    box.dataset.outcome = outcome.kind;
    const lines = [element("p", [
      element("a", element("bdi", name), { href: `../run/${encodeURIComponent(said.run)}.html` }), ": ",
      element("b", { exact: "exactly right", wrong: "answered wrongly", unanswered: outcome.state }[outcome.kind]),
      said.said ? ` · says ${said.said.join(", ") || "no rule is violated"}` : "",
    ])];
    if (outcome.errors.length) lines.push(element("p", [
      missed(outcome).length ? `○ missed ${listed(missed(outcome))}` : "",
      missed(outcome).length && flagged(outcome).length ? " · " : "",
      flagged(outcome).length ? `▲ flagged, not violated: ${listed(flagged(outcome))}` : "",
    ]));
    if (outcome.modes.length) lines.push(element("p", outcome.modes.map((mode) => modeText(mode)).join(" · ")));
    if (said.loose) lines.push(element("p", "Read with repairs: a plain JSON reader would not have read this answer."));
    if (said.note) lines.push(element("p", ["Note: ", element("bdi", said.note)]));
    box.replaceChildren(...lines);
  }
  const modeText = (mode) => $(`select[name=mode] option[value="${mode}"]`)?.text ?? mode;

  function statusOf(rule, violated, said) {
    const state = said.failed?.[rule];
    if (state) return ["unanswered", state];
    if (said.said == null || (said.asked && !said.asked.includes(rule) && !violated)) return ["none", ""];
    const named = said.said.includes(rule);
    return [violated ? (named ? "found" : "missed") : named ? "flagged" : "clear", ""];
  }

  function showRules(rules, said) {
    const errors = new Map(readOutcome(said.outcome).errors.map((error) => [error.rule, error.type]));
    for (const [rule, violated] of rules) {
      const item = document.getElementById(`r${rule}`);
      const [status, detail] = statusOf(rule, violated, said);
      const chip = $(".chip", item);
      item.dataset.status = chip.dataset.status = status;
      chip.hidden = said.said == null && status === "none";
      chip.textContent = WORDS[status] + (detail ? `: ${detail}` : "")
        + (errors.has(rule) ? ` (${errors.get(rule)} error)` : "");
      chip.title = said.notes?.[rule] ?? "";
      for (const link of all(`.bears a[href="#r${rule}"]`)) link.dataset.status = status;
    }
  }

  function showMatrix(data, run, form) {
    const choose = (slug) => { form.run.value = slug; form.run.dispatchEvent(new Event("input", { bubbles: true })); };
    const heads = data.runs.map((said, i) => {
      const name = [...form.run.options].find((option) => option.value === said.run).text;
      const button = element("button", String(i + 1), { type: "button", title: name, "aria-label": `run ${i + 1}: ${name}` });
      button.addEventListener("click", () => { choose(said.run); $(`#matrix thead th:nth-child(${i + 3}) button`).focus(); });
      return element("th", button, { scope: "col", class: said.run === run ? "chosen" : null });
    });
    const unknown = [...new Set(data.runs.flatMap((said) => said.unknown ?? []))].sort((a, b) => a - b);
    const rows = [...data.rules, ...unknown.map((rule) => [rule, 0, true])].map(([rule, violated, stranger]) => element("tr", [
      element("th", stranger ? `${rule} (not in the policy)` : element("a", String(rule), { href: `#r${rule}` }), { scope: "row" }),
      element("td", violated ? "■" : ""),
      ...data.runs.map((said) => {
        const [status] = statusOf(rule, violated, said);
        return element("td", [element("span", SIGNS[status], { "aria-hidden": "true" }), element("span", WORDS[status].slice(2), { class: "sr" })], { "data-status": status });
      }),
    ]));
    $("#matrix").replaceChildren(
      element("thead", element("tr", [element("th", "Rule", { scope: "col" }), element("th", "Truth", { scope: "col" }), ...heads])),
      element("tbody", rows),
    );
    $("#matrix-runs").replaceChildren(...data.runs.map((said) => {
      const outcome = readOutcome(said.outcome);
      const name = [...form.run.options].find((option) => option.value === said.run).text;
      return element("li", [element("bdi", name), `: ${outcome.kind === "unanswered" ? outcome.state : outcome.kind}`]);
    }));
  }

  function showReply(said) {
    const section = $("#reply-section"), reply = said.reply;
    section.hidden = reply == null;
    if (reply == null) return;
    const text = (content) => element("pre", content, { class: "reply", dir: "auto", tabindex: "0" });
    $("#reply").replaceChildren(...(typeof reply === "string" ? [text(reply)]
      : Object.entries(reply).map(([rule, content]) => element("details", [element("summary", `Rule ${rule}`), text(content)]))));
  }

  function comparePage() {
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

  function showDifference(data, i, j) {
    const key = i < j ? `${i}|${j}` : `${j}|${i}`, swapped = i > j;
    const rows = i === j ? [] : data.rows[key] ?? [];
    $("#pair-warning").textContent = i === j ? "Choose two runs." : data.warnings[key] ?? "";
    const names = { rmr: "RMR ↑", "rmr@1.0": "RMR@1.0 ↑", rdr: "RDR ↓", rmr_lower_bound: "lower bound ↑" };
    const tested = rows.some((row) => row.p != null);
    const body = rows.map((row) => {
      const [first, second] = swapped ? [row.second, row.first] : [row.first, row.second];
      const sign = swapped ? -1 : 1;
      const [low, high] = swapped ? [row.high, row.low] : [row.low, row.high];
      const clear = low != null && (low > 0) === (high > 0) && low !== 0 && high !== 0;
      return element("tr", [
        element("th", `${names[row.metric]}, ${row.level === "ALL" ? "all levels" : row.level}`, { scope: "row" }),
        ...[percent(first), percent(second)].map((text) => element("td", text, { class: "num" })),
        element("td", element(clear ? "b" : "span", points(row.difference == null ? null : sign * row.difference)), { class: "num" }),
        element("td", low == null ? "–" : `${points(sign * low)} to ${points(sign * high)}`, { class: "num" }),
        ...[row.p, row.p_holm].map((p) => element("td", p == null ? "–" : p < 0.001 ? "< 0.001" : p.toFixed(3), { class: "num" })),
        element("td", row.cases.toLocaleString("en") + (row.dropped ? ` (${row.dropped.toLocaleString("en")} left out)` : ""), { class: "num" }),
      ]);
    });
    const heads = ["Metric", "A", "B", "B − A", "95 % interval", "p", "p (Holm)", "cases"];
    $("#difference").replaceChildren(
      element("thead", element("tr", heads.map((head, n) => element("th", head, { scope: "col", class: n ? "num" : null })))),
      element("tbody", body),
    );
    if (rows.length && !tested) $("#pair-warning").append(" With this many runs, intervals and tests were left out: `safepyramid compare A B` gives them for two.");
  }

  function showCrosstab(pairs) {
    const heads = ["Cases", "asked of both", "exact in both", "fixed in B", "broken in B", "wrong in both, otherwise", "wrong in both, alike"];
    const rows = ["L0", "L1", "L2", ""].map((level) => {
      const part = pairs.filter((pair) => !level || pair.row[2] === level);
      const count = (change) => part.filter((pair) => pair.change === change).length;
      return [level || "all levels", part.length, ...["both", "fixed", "broken", "moved", "same"].map(count)];
    });
    table($("#crosstab"), heads, rows);
  }

  function showRuleFlips(pairs) {
    const counts = {};
    for (const { a, b } of pairs) {
      if (a.kind === "unanswered" || b.kind === "unanswered") continue;
      const [inA, inB] = [a, b].map((each) => new Set(each.errors.map((error) => error.key)));
      const add = (errors, name, test) => { for (const error of errors) if (test(error)) (counts[error.type] ??= { both: 0, fixed: 0, broken: 0 })[name] += 1; };
      add(a.errors, "fixed", (error) => !inB.has(error.key));
      add(a.errors, "both", (error) => inB.has(error.key));
      add(b.errors, "broken", (error) => !inA.has(error.key));
    }
    const types = Object.values(window.SP_INDEX.types).filter((type) => counts[type]);
    table($("#rule-flips"), ["Errors put down to", "in both", "fixed in B", "new in B"], types.map((type) => [type, counts[type].both, counts[type].fixed, counts[type].broken]));
  }

  function table(target, heads, rows) {
    target.replaceChildren(
      element("thead", element("tr", heads.map((head, n) => element("th", head, { scope: "col", class: n ? "num" : null })))),
      element("tbody", rows.map((row) => element("tr", row.map((cell, n) => n
        ? element("td", cell.toLocaleString("en"), { class: "num" }) : element("th", cell, { scope: "row" }))))),
    );
  }

  function showFlips(pairs, filter, form) {
    const kinds = { flipped: ["fixed", "broken"], a: ["broken"], b: ["fixed"], changed: ["moved"] }[filter.flip];
    const found = pairs.filter(({ row, a, b, change }) => kinds.includes(change)
      && (!filter.level || filter.level === row[2]) && (!filter.domain || filter.domain === row[3])
      && (!filter.type || [...a.errors, ...b.errors].some((error) => error.type === filter.type)));
    $("#count").textContent = `${found.length.toLocaleString("en")} case${found.length === 1 ? "" : "s"}`;
    const text = (outcome) => outcome.kind === "unanswered" ? outcome.state : outcome.kind === "exact" ? "exact"
      : [missed(outcome).length ? `○ missed ${listed(missed(outcome))}` : "", flagged(outcome).length ? `▲ flagged ${listed(flagged(outcome))}` : ""].filter(Boolean).join(" · ");
    showRows($("#flip-list tbody"), found, ({ row: [slug, id, level, domain], a, b, change }) => {
      const run = change === "fixed" ? form.a.value : form.b.value;
      return element("tr", [
        element("th", element("a", id, { href: `case/${encodeURIComponent(slug)}.html?${asQuery({ run })}` }), { scope: "row" }),
        element("td", level), element("td", words(domain)), element("td", text(a)), element("td", text(b)),
      ]);
    });
  }

  /* ---- keys */

  function moveInList(step) {
    const links = all("table.rows tbody tr:not([hidden])").filter((row) => row.offsetParent).map((row) => $("a", row)).filter(Boolean);
    if (!links.length) return false;
    const at = links.findIndex((link) => link === document.activeElement || link.closest("tr").contains(document.activeElement));
    links[at < 0 ? (step > 0 ? 0 : links.length - 1) : Math.max(0, Math.min(links.length - 1, at + step))].focus();
    return true;
  }

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (target.matches("input, select, textarea") || $("dialog[open]")) return;
    const onCase = document.body.dataset.page === "case", scrolls = target.matches(".scroll, .reply");
    const key = event.key;
    if (key === "t") nextTheme();
    else if (key === "?") $("#keys").showModal();
    else if (onCase && (key === "j" || (key === "ArrowRight" && !scrolls))) $("#next[href]")?.click();
    else if (onCase && (key === "k" || (key === "ArrowLeft" && !scrolls))) $("#previous[href]")?.click();
    else if (onCase && key === "r") nextRun();
    else if (!onCase && (key === "j" || (key === "ArrowDown" && target.closest("tbody")))) { if (!moveInList(1)) return; }
    else if (!onCase && (key === "k" || (key === "ArrowUp" && target.closest("tbody")))) { if (!moveInList(-1)) return; }
    else return;
    event.preventDefault();
  }

  function nextRun() {
    const select = $("#walk").run, options = [...select.options].filter((option) => !option.disabled);
    const at = options.findIndex((option) => option.selected);
    select.value = options[(at + 1) % options.length].value;
    select.dispatchEvent(new Event("input", { bubbles: true }));
  }

  /* What is folded in cannot be read on paper. */
  function printing() {
    let closed = [];
    addEventListener("beforeprint", () => { closed = all("main details:not([open])"); for (const each of closed) each.open = true; });
    addEventListener("afterprint", () => { for (const each of closed) each.open = false; });
  }

  document.addEventListener("DOMContentLoaded", () => {
    setTheme(theme);
    $("#theme-button").addEventListener("click", nextTheme);
    $("#keys-button").addEventListener("click", () => $("#keys").showModal());
    document.addEventListener("keydown", keys);
    printing();
    ({ index: leaderboard, cases: caseList, case: casePage, compare: comparePage })[document.body.dataset.page]?.();
  });
})();
