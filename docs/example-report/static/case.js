"use strict";

function startPage() {
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
  keepFolded($(".framework"));
  show();
}

/* Who walks through cases folds a long framework in once. */
function keepFolded(details) {
  if (!details) return;
  details.open = stored("safepyramid-framework") !== "folded";
  $("summary", details).addEventListener("click", () => stored("safepyramid-framework", details.open ? "folded" : "open"));
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
  $("#where").textContent = at < 0 ? `not among the ${thousands(found.length)}` : `${thousands(at + 1)} of ${thousands(found.length)}`;
}

function showVerdict(said, name) {
  const outcome = readOutcome(said.outcome);
  const box = $("#verdict");
  box.dataset.outcome = outcome.kind;
  const lines = [element("p", [
    element("a", element("bdi", name), { href: `../run/${encodeURIComponent(said.run)}.html` }), ": ",
    element("b", { exact: "exactly right", wrong: "answered wrongly", unanswered: outcome.state }[outcome.kind]),
    said.said ? ` · says ${withMore(said.said, said.more) || "no rule is violated"}` : "",
  ])];
  if (missed(outcome)) lines.push(element("p", `○ missed ${missed(outcome)}`));
  if (flagged(outcome)) lines.push(element("p", `▲ flagged, not violated: ${flagged(outcome)}`));
  if (outcome.modes.length) lines.push(element("p", outcome.modes.map((mode) => modeText(mode)).join(" · ")));
  if (said.loose) lines.push(element("p", "Read with repairs: a plain JSON reader would not have read this answer."));
  if (said.note) lines.push(element("p", ["Note: ", element("bdi", said.note)], { class: "note", tabindex: "0" }));
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
      return element("td", [element("span", SIGNS[status], { "aria-hidden": "true" }), element("span", WORDS[status].slice(2), { class: "sr" })], { "data-status": status, class: said.run === run ? "chosen" : null });
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
