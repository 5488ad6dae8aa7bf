"use strict";
// Routes between the lists and their details, search and filters, sorting, the runs behind a cell,
// the theme. The first detail that the reader opens unpacks the bundle with all details and rows.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);

function element(name, content = [], attributes = {}) {
  const made = document.createElement(name);
  made.append(...[content].flat());
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// the bundle: {details: {id: {title, view, html}}, rows: columns}

let bundle;
let opening;

function unpacked() {
  opening ??= packed().then(async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    bundle = JSON.parse(await new Response(stream).text());
    return bundle;
  });
  return opening;
}

// The bundle is the text of #bundle, or a script beside the page calls kbenchBundle with it: a page
// that is opened from a disk may load scripts and nothing else.
function packed() {
  const { src, digest } = one("#bundle").dataset;
  if (!src) return Promise.resolve(one("#bundle").textContent);
  return new Promise((resolve, reject) => {
    globalThis.kbenchBundle = (made, text) => {
      if (made === digest) resolve(text);
      else reject(Error(`${src} was written for another page; \`kbench report pages\` writes both.`));
    };
    const script = element("script", [], { src });
    script.onerror = () => reject(Error(`The details are in ${src}, which is not beside this page.`));
    document.head.append(script);
  });
}

// The value of column `name` in row i; `packed_rows` of embedded.py describes the columns.
function value(name, i) {
  const rows = bundle.rows;
  const column = rows.columns[name];
  if (column === undefined) return null;
  if (name === "command") return column[i].map((word) => rows.words[word]).join(" ");
  if (name === "phases" || name === "phases_cpu") {
    const phases = Object.entries(column).map(([phase, seconds]) => [phase, entry(seconds, i)]);
    return Object.fromEntries(phases.filter(([, seconds]) => seconds !== null));
  }
  return entry(column, i);
}

function entry(column, i) {
  if (Array.isArray(column)) return column[i];
  return "all" in column ? column.all : column.of[column.at[i]];
}

function names() {
  return Object.keys(bundle.rows.columns);
}

// Columns that the list of a run's columns leaves out, because the details show them above it.
const APART = new Set(["command", "params", "phases", "phases_cpu", "message", "log", "method", "dataset"]);

function short(number) {
  if (typeof number !== "number") return String(number);
  return Number.isInteger(number) ? number.toLocaleString("en") : String(number);
}

function list(entries) {
  return element("dl", entries.flatMap(([key, fact]) =>
    [element("dt", key), element("dd", typeof fact === "object" ? JSON.stringify(fact) : short(fact))]));
}

function titled(title, content) {
  return [element("h3", title), content];
}

function runDetails(i, open) {
  const status = value("status", i);
  const facts = ["accuracy", "rmse"]
    .filter((name) => value(name, i) !== null)
    .map((name) => `${name} ${value(name, i)}`);
  for (const [name, column] of [["fit", "fit_cpu_s"], ["predict", "predict_cpu_s"]]) {
    if (value(column, i) !== null) facts.push(`${name} ${Number(value(column, i).toPrecision(3))} CPU s`);
  }
  const variant = value("variant", i) ? ` (${value("variant", i)})` : "";
  const head = element("summary", [
    `${value("method", i)} on ${value("dataset", i)}${variant} · seed ${value("seed", i) ?? "none"} · `,
    element("span", status, status === "ok" ? {} : { class: "status" }),
    ...facts.map((fact) => ` · ${fact}`),
  ]);
  const details = element("details", head, open ? { open: "" } : {});
  const fill = () => {
    if (details.childElementCount > 1) return;
    if (value("message", i)) details.append(...titled("message", element("pre", value("message", i))));
    if (value("log", i)) details.append(...titled("end of the log", element("pre", value("log", i))));
    if (value("command", i)) {
      const copy = element("button", "Copy", { class: "copy", type: "button" });
      copy.onclick = async () => {
        await navigator.clipboard.writeText(value("command", i));
        copy.textContent = "Copied";
      };
      details.append(copy, ...titled("to do it again", element("pre", value("command", i))));
    }
    const params = Object.entries(JSON.parse(value("params", i) ?? "{}"));
    if (params.length) details.append(...titled("parameters", list(params)));
    for (const [title, column] of [["seconds", "phases"], ["CPU seconds", "phases_cpu"]]) {
      const phases = Object.entries(value(column, i) ?? {});
      if (phases.length) details.append(...titled(`phases, ${title}`, list(phases)));
    }
    const rest = names().filter((name) => !APART.has(name) && value(name, i) !== null);
    details.append(...titled("row", list(rest.map((name) => [name, value(name, i)]))));
  };
  if (open) fill();
  details.addEventListener("toggle", fill);
  return details;
}

// routes: "#tables" is a list, "#claim-3" a place in one, "#dcsvm_table3" a detail, and
// "#dcsvm_table3/run-KEY" the runs of one of its cells

const detail = one("#detail");
const dialog = one("dialog");
const views = all("#lists > section");
const scrolled = new Map();
let current = "";

async function route() {
  const { hash } = location;
  const [name, run] = decodeURIComponent(hash.slice(1)).split("/");
  const place = document.getElementById(name);
  const view = views.find((section) => section === place || section.contains(place)) ?? null;
  if (view || !name) {
    showView(view ?? views[0], place);
  } else {
    try {
      await unpacked();
      if (location.hash !== hash) return; // the reader went on meanwhile
    } catch (error) {
      showView(views[0], null);
      one("#missing").textContent = error.message;
      return;
    }
    if (!(name in bundle.details)) showView(views[0], null);
    else if (current !== name) showDetail(name, bundle.details[name]);
  }
  showRuns(run);
}

function showView(view, place) {
  detail.hidden = true;
  detail.replaceChildren();
  one("#lists").hidden = false;
  one("#find").hidden = false;
  for (const section of views) section.hidden = section !== view;
  mark(view.id);
  const back = current !== "" && current !== view.id;
  current = view.id;
  for (const target of all(".target")) target.classList.remove("target");
  if (place && place !== view) {
    const row = place.closest("tr") ?? place;
    if (row.hidden) clear();
    row.classList.add("target");
    row.scrollIntoView({ block: "center" });
  } else {
    scrollTo(0, back ? scrolled.get(view.id) ?? 0 : 0);
  }
}

function showDetail(name, content) {
  scrolled.set(current, scrollY);
  current = name;
  const list = views.find((section) => section.id === content.view);
  const back = element("a", `← ${one("h2", list).textContent}`, { class: "back", href: `#${content.view}` });
  const title = element("h2", content.title, { id: "detail-title", tabindex: "-1" });
  const body = element("div");
  body.innerHTML = content.html;
  detail.replaceChildren(back, title, lineFilter(body), body);
  for (const button of all("thead button", body)) button.onclick = () => sort(button.closest("th"));
  for (const button of all(".all", body)) expand(button);
  for (const article of all("article", body)) link(article);
  one("#lists").hidden = true;
  one("#find").hidden = true;
  detail.hidden = false;
  mark(content.view);
  scrollTo(0, 0);
  title.focus({ preventScroll: true });
}

function mark(id) {
  for (const link of all("nav a")) {
    if (link.getAttribute("href") === `#${id}`) {
      link.setAttribute("aria-current", "page");
      // On a phone 40 px of the link before stay in sight. Set by hand.
      one("nav").scrollLeft = link.offsetLeft - one("nav").offsetLeft - 40;
    } else link.removeAttribute("aria-current");
  }
}

addEventListener("hashchange", route);

// the runs behind a cell

function showRuns(run) {
  const cell = run && one(`[data-r] a[href="#${CSS.escape(run)}"]`, detail)?.closest("[data-r]");
  if (!cell) {
    if (dialog.open) dialog.close();
    return;
  }
  const places = cell.dataset.r.split(",").map(Number);
  const line = one("th", cell.closest("tr")).textContent;
  // The last line of headers names each measured column in full.
  const column = [...(cell.closest("table").tHead.rows)].at(-1).cells[cell.cellIndex];
  const of = column?.getAttribute("aria-label")?.replace(/, kbench$/, "") ?? "";
  one("#subject").textContent = `${[line, of].filter(Boolean).join(", ")} · ${one("#detail-title").textContent}`;
  one("#runs").replaceChildren(...places.map((i) => runDetails(i, places.length === 1)));
  if (!dialog.open) dialog.showModal();
}

function open(href) {
  location.hash = `#${current}/${href.slice(1)}`;
}

dialog.addEventListener("close", () => {
  if (location.hash.includes("/run-")) history.replaceState(null, "", `#${current}`);
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  const href = link?.getAttribute("href");
  if (href?.startsWith("#run-")) {
    event.preventDefault();
    open(href);
    return;
  }
  const cell = event.target.closest("[data-r]");
  if (cell && !link && getSelection().isCollapsed) open(one("a", cell).getAttribute("href"));
});

// sorting: numbers by value, text by letters, cells without a number last in both directions

// The number that a text begins with, NaN without one: 1,347 is 1347, .5 ± .1, at most -3 %, ~ 2 ×.
function number(text) {
  const words = /^(?:at (?:most|least)|from|[~≈<>≤≥]|\s)*([-−+]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?)(?!\w|\.\d)/;
  const match = words.exec(text);
  return match ? Number(match[1].replaceAll(",", "").replace("−", "-")) : NaN;
}

const letters = new Intl.Collator("en", { numeric: true });

function sort(header) {
  const table = header.closest("table");
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row) => {
    const shown = row.cells[header.cellIndex].textContent.trim();
    return { row, shown, key: number(shown) };
  });
  // A column of words may hold numbers with their units.
  const filled = keyed.filter((entry) => entry.shown !== "");
  const words = header.cellIndex === 0 || header.classList.contains("word");
  const text = words && 2 * filled.filter((entry) => !Number.isNaN(entry.key)).length <= filled.length;
  const usual = header.dataset.better === "max" ? "descending" : "ascending";
  const other = usual === "ascending" ? "descending" : "ascending";
  const order = header.getAttribute("aria-sort") === usual ? other : usual;
  const sign = order === "ascending" ? 1 : -1;
  keyed.sort((a, b) => {
    if (text) return (a.shown === "") - (b.shown === "") || sign * letters.compare(a.shown, b.shown);
    return Number.isNaN(a.key) - Number.isNaN(b.key) || sign * (a.key - b.key) || 0;
  });
  body.append(...keyed.map((entry) => entry.row));
  for (const cell of all("thead th", table)) cell.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", order);
}

// On a phone an item is a card, whose values have the names of their columns.
for (const table of all("#lists table")) {
  const names = [...[...table.tHead.rows].at(-1).cells].map((cell) => cell.textContent);
  for (const row of table.tBodies[0].rows) {
    [...row.cells].forEach((cell, i) => { if (i > 0) cell.dataset.head = names[i]; });
  }
}

for (const button of all("#lists .all")) expand(button);
for (const button of all("#lists thead button")) button.onclick = () => sort(button.closest("th"));

// search and filters: an item shows where it has every word and every chosen value

const form = one("#find");
const items = all("#lists section:not(#overview) tbody tr");
const counts = new Map(all("nav a").map((link) => [link.getAttribute("href").slice(1), element("small")]));
for (const link of all("nav a")) link.append(counts.get(link.getAttribute("href").slice(1)));

function find() {
  const wanted = one("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const chosen = all("select", form).filter((select) => select.value !== "");
  const active = wanted.length + chosen.length > 0;
  for (const item of items) {
    const text = item.textContent.toLowerCase();
    item.hidden = !(wanted.every((word) => text.includes(word)) &&
      chosen.every((select) => (item.dataset[select.dataset.facet] ?? "").includes(`|${select.value}|`)));
  }
  let total = 0;
  for (const section of views.filter((view) => view.id !== "overview")) {
    const left = all("tbody tr", section).filter((item) => !item.hidden).length;
    total += left;
    if (one("tbody", section)) counts.get(section.id).textContent = left;
    const none = one(".none", section);
    if (none) none.hidden = left > 0;
  }
  one("#matches").textContent = active ? `${total} match${total === 1 ? "" : "es"} in all lists` : "";
  one("#clear").hidden = !active;
  if (active && one("#overview").hidden === false) {
    const first = views.find((section) => section.id !== "overview" && all("tbody tr", section).some((item) => !item.hidden));
    if (first) location.hash = `#${first.id}`;
  }
}

function clear() {
  form.reset();
  find();
}

form.addEventListener("input", find);
form.addEventListener("reset", () => setTimeout(find));
form.addEventListener("submit", (event) => event.preventDefault());

// lines of a detail: a filter by methods, a button for further settings, the best of the shown lines

function lineFilter(body) {
  const lines = all("tr[data-m]", body);
  // Two methods need no filter. Set by hand.
  if (new Set(lines.map((line) => line.dataset.m)).size < 3) return "";
  const input = element("input", [], { type: "search", placeholder: "svc, meka …", autocomplete: "off" });
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
    for (const marked of all("[data-m]", body)) {
      const shown = !wanted.length || wanted.some((word) => marked.dataset.m.toLowerCase().includes(word));
      marked.classList.toggle("off", !shown);
    }
    all("table", body).forEach(markBest);
  });
  return element("label", [element("span", "Methods"), input], { class: "lines" });
}

function markBest(table) {
  for (const header of all("th[data-better]", table)) {
    const column = header.cellIndex;
    const cells = [...table.tBodies[0].rows]
      .filter((row) => getComputedStyle(row).display !== "none")
      .map((row) => row.cells[column])
      .filter((cell) => !Number.isNaN(number(cell.textContent)));
    const pick = header.dataset.better === "max" ? Math.max : Math.min;
    const best = pick(...cells.map((cell) => number(cell.textContent)));
    for (const row of table.tBodies[0].rows) row.cells[column].classList.remove("best");
    if (cells.length > 1) for (const cell of cells) cell.classList.toggle("best", number(cell.textContent) === best);
  }
}

function expand(button) {
  const words = button.textContent;
  button.onclick = () => {
    const every = button.closest("article").classList.toggle("every");
    button.textContent = every ? "Show fewer lines" : words;
    markBest(one("table", button.closest("article")));
  };
}

// a line and its marks point at each other

function link(article) {
  const plots = all(".plot", article);
  const focus = (event) => {
    const line = event.target.closest?.("tr[data-r], .plot a");
    const href = line && (line.getAttribute("href") ?? one("a", line)?.getAttribute("href"));
    for (const plot of plots) {
      for (const on of all("a.on", plot)) on.classList.remove("on");
      const marks = href ? all(`a[href="${CSS.escape(href)}"]`, plot) : [];
      for (const shape of marks) shape.classList.add("on");
      plot.classList.toggle("focus", marks.length > 0);
    }
  };
  article.addEventListener("pointerover", focus);
  article.addEventListener("pointerleave", focus);
  article.addEventListener("focusin", focus);
}

// The style sheet places sticky headers by the heights of the bar and of the filters, which depend
// on the width of the window and on the fonts.

const bar = one("header");
const below = new ResizeObserver(() => {
  const { style } = document.documentElement;
  style.setProperty("--bar", `${bar.offsetHeight}px`);
  style.setProperty("--below", `${bar.offsetHeight + form.offsetHeight}px`);
});
below.observe(bar);
below.observe(form);

// a way back to the top, shown after one and a half windows (set by hand)

const up = one("#top");
up.onclick = (event) => {
  event.preventDefault();
  scrollTo(0, 0);
  one("nav a").focus({ preventScroll: true });
};
addEventListener("scroll", () => { up.hidden = scrollY < 1.5 * innerHeight; }, { passive: true });

// light and dark: the reader's choice, else the system's

function stored(theme) {
  try {
    if (theme) localStorage.setItem("kbench-theme", theme);
    return localStorage.getItem("kbench-theme");
  } catch {
    return null; // a page opened from a file may have no storage
  }
}

document.documentElement.style.colorScheme = stored() ?? "";
one("#theme").onclick = () => {
  const chosen = document.documentElement.style.colorScheme;
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const theme = dark ? "light" : "dark";
  document.documentElement.style.colorScheme = theme;
  stored(theme);
};

find();
route();
