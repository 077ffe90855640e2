"use strict";
// Sorts and narrows tables, shows the figures that were chosen, and lights up one line of a chart. Without this script
// the page shows everything.

const STEP = 300; // rows laid out at once; a browser takes seconds for thousands
const held = new Map(); // id of a table -> its columns, and its rows with the text of their cells

function number(text) {
  const value = text.startsWith("∞") ? Infinity : parseFloat(text);
  return Number.isNaN(value) ? null : value;
}

function compare(one, other, column, numeric, down) {
  const [a, b] = [one.texts[column], other.texts[column]].map((text) => (numeric ? number(text) : text || null));
  if (a === null || b === null) return (a === null) - (b === null); // what is unknown comes last, either way
  const order = numeric ? (a > b) - (a < b) : a.localeCompare(b, "en", { numeric: true });
  return down ? -order : order;
}

function sortBy(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const head = heads[column];
  const down = head.getAttribute("aria-sort") === "ascending";
  heads.forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const data = held.get(table.id);
  data.rows.sort((one, other) => compare(one, other, column, "number" in head.dataset, down));
  table.tBodies[0].append(...data.rows.map((row) => row.element));
  narrow(table.id, false);
}

// Rows beyond those that are written out: text, small print and a class for every cell.
function unpack(table) {
  const packed = document.querySelector(`[data-rows="${table.id}"]`);
  if (!packed) return;
  const columns = JSON.parse(packed.textContent).map(({ words, used }) =>
    used.split(" ").flatMap((run) => {
      const [place, times] = run.split("x");
      return Array(Number(times ?? 1)).fill(words[place]);
    }),
  );
  table.tBodies[0].append(
    ...columns[0].map((_, row) => {
      const line = document.createElement("tr");
      columns.forEach((cells, column) => {
        const [text, more = "", bad = ""] = cells[row];
        const cell = document.createElement(column ? "td" : "th");
        if (!column) cell.scope = "row";
        cell.className = `${bad}${column && text.length > 40 ? " long" : ""}`;
        cell.textContent = more ? `${text} ` : text;
        if (more) cell.append(Object.assign(document.createElement("small"), { textContent: more }));
        line.append(cell);
      });
      return line;
    }),
  );
}

function read(table) {
  unpack(table);
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows].map((element) => ({
    element,
    texts: [...element.cells].map((cell) => cell.textContent.trim()),
  }));
  held.set(table.id, { columns: heads.map((head) => head.dataset.name), rows, limit: STEP });
  heads.forEach((head, column) => {
    if ("drawn" in head.dataset) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(table, column));
    head.append(button);
  });
}

function controls(id, kind) {
  return [...document.querySelectorAll(`${kind}[data-table="${id}"]`)];
}

// A menu offers what is left after the menus before it.
function fill(select, values, first) {
  const kept = select.value;
  const wanted = first ? select.dataset.default : kept;
  const options = values.map((value) => new Option(value, value));
  select.replaceChildren(new Option("all", ""), ...options);
  if (wanted && values.includes(wanted)) select.value = wanted;
  else if ("must" in select.dataset && (first || kept) && values.length) select.value = values[0];
  else select.value = "";
}

function narrow(id, first) {
  const { columns, rows, limit } = held.get(id);
  let left = rows;
  for (const select of controls(id, "select")) {
    const column = columns.indexOf(select.dataset.column);
    if (column < 0) {
      select.parentElement.hidden = true;
      continue;
    }
    const values = [...new Set(left.map((row) => row.texts[column]))].filter(Boolean);
    fill(select, "must" in select.dataset ? values : values.sort(), first);
    if (select.value) left = left.filter((row) => row.texts[column] === select.value);
  }
  const words = controls(id, "input").flatMap((input) => input.value.toLowerCase().split(/\s+/).filter(Boolean));
  left = left.filter((row) => {
    const text = row.texts.join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const shown = new Set(left.slice(0, limit));
  rows.forEach((row) => row.element.classList.toggle("off", !shown.has(row)));
  const table = document.getElementById(id);
  columns.forEach((_, column) => {
    const drawn = "drawn" in table.tHead.rows[0].cells[column].dataset;
    const used = drawn || !left.length || left.some((row) => row.texts[column]);
    table.querySelectorAll("col")[column].classList.toggle("empty", !used);
  });
  for (const output of document.querySelectorAll(`[data-count="${id}"]`)) {
    const [here, found, all] = [shown.size, left.length, rows.length].map((size) => size.toLocaleString("en"));
    output.textContent = here === found ? `Showing ${here} of ${all} rows` : `Showing ${here} of ${found} matching rows`;
  }
  document.querySelector(`[data-more="${id}"]`).hidden = left.length <= limit;
  showPlaces(id);
}

function showPlaces(id) {
  const chosen = controls(id, "select").filter((select) => "must" in select.dataset && select.value);
  for (const place of document.querySelectorAll(`.place[data-of="${id}"]`)) {
    const { dataset } = place;
    const fits = chosen.every(({ dataset: { column }, value }) => !(column in dataset) || dataset[column] === value);
    place.classList.toggle("off", !fits);
  }
}

function widen(id) {
  for (const control of [...controls(id, "select"), ...controls(id, "input")]) control.value = "";
  narrow(id, false);
}

function showBlock(select) {
  for (const block of document.getElementById(select.dataset.blocks).tBodies) {
    const at = block.dataset.epsilon;
    block.classList.toggle("off", Boolean(select.value && at && at !== select.value));
  }
}

// Where a title has two lines, the first is what its legend calls a line of a chart.
function nameLine(title) {
  const [label, said] = title.textContent.split("\n");
  if (said !== undefined) title.parentElement.dataset.line = label;
}

// A legend entry lights up its line in all figures beside it.
function makeLegend(list) {
  const figures = list.parentElement;
  for (const item of list.children) {
    const label = item.querySelector("span").firstChild.textContent.trim();
    const lines = [...figures.querySelectorAll("[data-line]")].filter(
      (line) => line.dataset.line === label || label.startsWith(`${line.dataset.line}, ε`),
    );
    if (!lines.length) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.append(...item.childNodes);
    const press = (pressed) => {
      button.setAttribute("aria-pressed", String(pressed));
      lines.forEach((line) => line.classList.toggle("on", pressed));
      figures.classList.toggle("lit", list.querySelector("[aria-pressed=true]") !== null);
    };
    button.addEventListener("click", () => press(button.getAttribute("aria-pressed") !== "true"));
    item.append(button);
    if ("lit" in item.dataset) press(true);
  }
}

// The marks of a path do not answer to a pointer; what lies unseen below them does.
function makeDots(path) {
  const drawn = path.getAttribute("d");
  const dots = path.cloneNode();
  dots.setAttribute("class", "dots");
  if (!path.matches(".across")) dots.setAttribute("d", drawn.replace(/[ML](\d+ \d+)(h0)?/g, "M$1h0"));
  path.before(dots);
}

document.querySelectorAll("table.data").forEach(read);
for (const id of held.keys()) narrow(id, true);
document.querySelectorAll("select[data-blocks]").forEach((select) => {
  showBlock(select);
  select.addEventListener("change", () => showBlock(select));
});
document.querySelectorAll("select[data-table]").forEach((select) =>
  select.addEventListener("change", () => narrow(select.dataset.table, false)),
);
document.querySelectorAll("input[data-table]").forEach((input) =>
  input.addEventListener("input", () => narrow(input.dataset.table, false)),
);
document.querySelectorAll("[data-more]").forEach((button) =>
  button.addEventListener("click", () => {
    held.get(button.dataset.more).limit += STEP;
    narrow(button.dataset.more, false);
  }),
);
document.querySelectorAll("[data-widen]").forEach((button) =>
  button.addEventListener("click", () => widen(button.dataset.widen)),
);
document.querySelectorAll(".chart > g > title").forEach(nameLine);
document.querySelectorAll(".legend").forEach(makeLegend);
document.querySelectorAll(".chart .line, .chart .mark").forEach(makeDots);
document.documentElement.classList.remove("loading");

// Paper has nothing to click on.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  closed.forEach((item) => (item.open = true));
});
addEventListener("afterprint", () => closed.forEach((item) => (item.open = false)));
