"use strict";

function startPage() {
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
    $("#count").textContent = `${thousands(found.length)} of ${counted(ran, "case")} of this run`;
    const query = asQuery({ ...filter, q: "" });
    showRows($("#case-list tbody"), found, ([[slug, id, level, domain], outcome]) => element("tr", [
      element("th", element("a", id, { href: `case/${encodeURIComponent(slug)}.html?${query}` }), { scope: "row" }),
      element("td", level), element("td", words(domain), { class: "domain" }),
      element("td", outcome.kind === "unanswered" ? outcome.state : outcome.kind),
      labelled("○ missed", missed(outcome)), labelled("▲ flagged, not violated", flagged(outcome)),
      labelled("failure modes", outcome.modes.join(", ")),
    ]));
    remember(filter);
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
}
