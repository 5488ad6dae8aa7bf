"use strict";
// Sorting, filters, the theme, and the details of the runs behind a cell. The rows are columns in
// #rows; a line or a cell of a table names its own as "first count" in data-r.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);

function element(name, content = [], attributes = {}) {
  const made = document.createElement(name);
  made.append(...[content].flat());
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// rows

let data;

function value(name, i) {
  data ??= JSON.parse(one("#rows").textContent);
  const column = data.columns[name];
  if (column === undefined) return null;
  if (name === "command") return column[i].map((word) => data.words[word]).join(" ");
  if (name === "phases") {
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
  value("key", 0);
  return Object.keys(data.columns);
}

// Columns with a place of their own in the details.
const APART = new Set(["command", "params", "phases", "message", "log", "method", "dataset"]);

function short(number) {
  if (typeof number !== "number") return String(number);
  return Number.isInteger(number) ? number.toLocaleString("en") : String(number);
}

function list(entries) {
  return element("dl", entries.flatMap(([key, found]) =>
    [element("dt", key), element("dd", typeof found === "object" ? JSON.stringify(found) : short(found))]));
}

function part(title, content) {
  return [element("h3", title), content];
}

function run(i, open) {
  const status = value("status", i);
  const facts = ["accuracy", "rmse"]
    .filter((name) => value(name, i) !== null)
    .map((name) => `${name} ${value(name, i)}`);
  for (const [name, column] of [["fit", "fit_wall_s"], ["predict", "predict_wall_s"]]) {
    if (value(column, i) !== null) facts.push(`${name} ${Number(value(column, i).toPrecision(3))} s`);
  }
  const head = element("summary", [
    `seed ${value("seed", i) ?? "none"} · `,
    element("span", status, status === "ok" ? {} : { class: "status" }),
    ...facts.map((fact) => ` · ${fact}`),
  ]);
  const details = element("details", head, open ? { open: "" } : {});
  const fill = () => {
    if (details.childElementCount > 1) return;
    if (value("message", i)) details.append(...part("message", element("pre", value("message", i))));
    if (value("log", i)) details.append(...part("end of the log", element("pre", value("log", i))));
    if (value("command", i)) {
      const copy = element("button", "Copy", { class: "copy", type: "button" });
      copy.onclick = async () => {
        await navigator.clipboard.writeText(value("command", i));
        copy.textContent = "Copied";
      };
      details.append(copy, ...part("to do it again", element("pre", value("command", i))));
    }
    const params = Object.entries(JSON.parse(value("params", i) ?? "{}"));
    if (params.length) details.append(...part("parameters", list(params)));
    const phases = Object.entries(value("phases", i) ?? {});
    if (phases.length) details.append(...part("phases, seconds", list(phases)));
    const rest = names().filter((name) => !APART.has(name) && value(name, i) !== null);
    details.append(...part("row", list(rest.map((name) => [name, value(name, i)]))));
  };
  if (open) fill();
  details.addEventListener("toggle", fill);
  return details;
}

// the details of a line, at the address #run-KEY

const dialog = one("dialog");

function show() {
  const key = location.hash.startsWith("#run-") ? location.hash.slice(5) : null;
  const line = key && one(`tr a[href="#run-${CSS.escape(key)}"]`)?.closest("[data-r]");
  if (!line) {
    if (dialog.open) dialog.close();
    return;
  }
  const [first, count] = line.dataset.r.split(" ").map(Number);
  one("#subject").textContent = `${one("th", line.closest("tr")).textContent}, ${one("h2", line.closest("section")).textContent}`;
  one("#runs").replaceChildren(...Array.from({ length: count }, (_, k) => run(first + k, count === 1)));
  if (!dialog.open) dialog.showModal();
}

dialog.addEventListener("close", () => {
  if (location.hash.startsWith("#run-")) history.replaceState(null, "", location.pathname + location.search);
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
addEventListener("hashchange", show);

document.addEventListener("click", (event) => {
  const line = event.target.closest("[data-r]");
  if (line && !event.target.closest("a") && getSelection().isCollapsed) {
    location.hash = one("a", line).getAttribute("href");
  }
  for (const menu of all(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  const menu = one(".menu[open]");
  if (event.key !== "Escape" || !menu) return;
  menu.open = false;
  one("summary", menu).focus();
});

// sorting: numbers by value, text by letters, cells without a number last in both directions

function sort(header) {
  const table = header.closest("table");
  const body = table.tBodies[0];
  const column = header.cellIndex;
  const text = column === 0;
  const usual = header.dataset.better === "max" ? "descending" : "ascending";
  const other = usual === "ascending" ? "descending" : "ascending";
  const order = header.getAttribute("aria-sort") === usual ? other : usual;
  const sign = order === "ascending" ? 1 : -1;
  const keyed = [...body.rows].map((row) => {
    const shown = row.cells[column].textContent;
    return { row, key: text ? shown : parseFloat(shown) };
  });
  keyed.sort((a, b) => {
    if (text) return sign * (a.key < b.key ? -1 : a.key > b.key ? 1 : 0);
    return Number.isNaN(a.key) - Number.isNaN(b.key) || sign * (a.key - b.key) || 0;
  });
  body.append(...keyed.map((entry) => entry.row));
  for (const cell of all("thead th", table)) cell.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", order);
}

for (const button of all("article thead button")) button.onclick = () => sort(button.closest("th"));

// filters: one rule of style hides what is not chosen, in tables, plots and legends alike

const filters = [["datasets", "data-d"], ["methods", "data-m"]].filter(([id]) => one(`#${id}`));
const hiding = document.head.appendChild(element("style"));

function markBest(table) {
  for (const header of all("th[data-better]", table)) {
    const column = header.cellIndex;
    const cells = [...table.tBodies[0].rows]
      .filter((row) => getComputedStyle(row).display !== "none")
      .map((row) => row.cells[column])
      .filter((cell) => !Number.isNaN(parseFloat(cell.textContent)));
    const pick = header.dataset.better === "max" ? Math.max : Math.min;
    const best = pick(...cells.map((cell) => parseFloat(cell.textContent)));
    for (const row of table.tBodies[0].rows) row.cells[column].classList.remove("best");
    if (cells.length > 1) for (const cell of cells) cell.classList.toggle("best", parseFloat(cell.textContent) === best);
  }
}

function filter() {
  const hidden = [];
  for (const [id, attribute] of filters) {
    const off = all(`#${id} input:not(:checked)`);
    hidden.push(...off.map((box) => `[${attribute}="${box.value}"]`));
    one("summary", one(`#${id}`).parentElement).classList.toggle("some", off.length > 0);
  }
  hiding.textContent = hidden.length ? `${hidden.join()}{display:none}` : "";
  all("article table").forEach(markBest);
}

for (const [id] of filters) {
  one(`#${id}`).addEventListener("change", filter);
  for (const button of all(`#${id} button`)) {
    button.onclick = () => {
      for (const box of all(`#${id} input`)) box.checked = button.dataset.all === "1";
      filter();
    };
  }
}

for (const button of all(".all")) {
  const words = button.textContent;
  button.onclick = () => {
    const every = button.closest("article").classList.toggle("every");
    button.textContent = every ? "Show fewer lines" : words;
    markBest(one("table", button.closest("article")));
  };
}

// a line and its marks point at each other

for (const article of all("article")) {
  const plots = all(".plot", article);
  const focus = (event) => {
    const line = event.target.closest("tr[data-r], .legend li, .plot a");
    const href = line && (line.getAttribute("href") ?? one("a", line)?.getAttribute("href"));
    const mark = href ? `a[href="${href}"]` : line && `a[data-m="${line.dataset.m}"]`;
    for (const plot of plots) {
      for (const on of all("a.on", plot)) on.classList.remove("on");
      const marks = mark ? all(mark, plot) : [];
      for (const found of marks) found.classList.add("on");
      plot.classList.toggle("focus", marks.length > 0);
    }
  };
  article.addEventListener("pointerover", focus);
  article.addEventListener("pointerleave", focus);
  article.addEventListener("focusin", focus);
}

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

show();
