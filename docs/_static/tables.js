// Tables of four columns or more, or with long code, become lists on a phone: each cell then says
// which column it is of.
addEventListener("DOMContentLoaded", () => {
  const longest = (code) => Math.max(...code.textContent.split(/\s/).map((word) => word.length));
  for (const table of document.querySelectorAll("article table.docutils")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    const hasLongCode = [...table.querySelectorAll("td code")].some((code) => longest(code) > 12);
    if (heads.length < 4 && !hasLongCode) continue;
    table.classList.add("wide");
    for (const row of table.tBodies[0].rows)
      [...row.cells].forEach((cell, place) => { cell.dataset.label = heads[place]; });
  }
});
