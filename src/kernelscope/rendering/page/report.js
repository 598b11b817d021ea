"use strict";
const texts = document.getElementById("specs").textContent;
const dark = JSON.parse(document.getElementById("dark").textContent);
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const options = {
  mode: "vega-lite", renderer: "svg", ast: true, actions: false, defaultStyle: false,
  tooltip: {disableDefaultStyle: true},
};
let views = [];
let turn = 0;
async function draw(isDark) {
  const mine = ++turn;
  views.forEach((view) => view.finalize());
  views = [];
  const coloured = isDark ? texts.replace(/#[0-9a-f]{6}/g, (one) => dark[one] || one) : texts;
  for (const [id, spec] of Object.entries(JSON.parse(coloured))) {
    const view = await vegaEmbed("#" + id, spec, options);
    if (mine !== turn) return view.finalize();
    views.push(view);
  }
  document.documentElement.dataset.drawn = views.length;
}
prefersDark.addEventListener("change", () => draw(prefersDark.matches));
addEventListener("beforeprint", () => draw(false));
addEventListener("afterprint", () => draw(prefersDark.matches));
draw(prefersDark.matches).catch(console.error);

const table = document.getElementById("kernel-table");
const body = table.tBodies[0];
const headings = [...table.tHead.rows[0].cells];
const valueOf = (row, column) => {
  const cell = row.cells[column];
  return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
};
headings.forEach((heading, column) => heading.firstChild.addEventListener("click", () => {
  const isText = typeof valueOf(body.rows[0], column) === "string";
  const now = heading.ariaSort || heading.getAttribute("aria-sort");
  const next = now === "none" ? (isText ? "ascending" : "descending")
    : now === "ascending" ? "descending" : "ascending";
  headings.forEach((other) => other.setAttribute("aria-sort", "none"));
  heading.setAttribute("aria-sort", next);
  const sign = next === "ascending" ? 1 : -1;
  const rows = [...body.rows].sort((a, b) => {
    const x = valueOf(a, column), y = valueOf(b, column);
    return sign * (x < y ? -1 : x > y ? 1 : 0);
  });
  body.append(...rows);
}));
const search = document.getElementById("search");
search.addEventListener("input", () => {
  const wanted = search.value.toLowerCase();
  let shown = 0;
  for (const row of body.rows) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
    shown += !row.hidden;
  }
  document.getElementById("found").textContent = `${shown} of ${body.rows.length} rows`;
});
