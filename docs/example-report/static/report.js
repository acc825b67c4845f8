/* What all pages share. A page with a script of its own defines startPage there. */
"use strict";

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
const thousands = (number) => number.toLocaleString("en");
const counted = (number, thing) => `${thousands(number)} ${thing}${number === 1 ? "" : "s"}`;

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
  if (!/^[0-9a-f]$/.test(head)) return { state: head, kind: "unanswered", modes: [], errors: [], more: 0 };
  const mask = parseInt(head, 16);
  const modes = window.SP_INDEX.modes.filter((_, i) => mask & (1 << i));
  const more = rest.at(-1)?.startsWith("~") ? Number(rest.pop().slice(1)) : 0;
  const errors = rest.map((each) => ({
    key: each, missed: each[0] === "-", rule: Number(each.slice(1, -1)), type: window.SP_INDEX.types[each.at(-1)],
  }));
  return { state: "answered", kind: errors.length ? "wrong" : "exact", modes, errors, more };
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

/* Rules with their types; numbers that the data leaves out are counted. Empty without any. */
const withMore = (texts, more) => [...texts, ...(more ? [`and ${thousands(more)} more`] : [])].join(", ");
const named = (errors) => errors.map((error) => `${error.rule}\u00a0(${error.type})`);
const missed = (outcome) => withMore(named(outcome.errors.filter((error) => error.missed)), 0);
const flagged = (outcome) => withMore(named(outcome.errors.filter((error) => !error.missed)), outcome.more);

/* A cell that a phone, where rows are no table, shows with its label; or not at all. */
function labelled(label, text) {
  return element("td", text || "–", { "data-label": label, class: text ? null : "none" });
}

function showRows(body, rows, make) {
  const more = $("#more");
  let shown = 0;
  const next = () => {
    body.append(...rows.slice(shown, shown + PAGE_ROWS).map(make));
    shown = Math.min(rows.length, shown + PAGE_ROWS);
    more.hidden = shown >= rows.length;
  };
  body.closest(".scroll").hidden = !rows.length;
  body.replaceChildren();
  more.onclick = next;
  next();
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
  if (typeof startPage === "function") startPage();
});
