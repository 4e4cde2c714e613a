// Tables of four columns or more become lists on a phone: each cell then says which column it is of.
addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll("article table.docutils")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    if (heads.length < 4) continue;
    table.classList.add("wide");
    for (const row of table.tBodies[0].rows)
      [...row.cells].forEach((cell, place) => { cell.dataset.label = heads[place]; });
  }
});
