"use strict";
Bokeh.require("core/logging").logger.set_level("error");
{
  // Charts of a kernel are made when it is first shown.
  const show = async (section) => {
    for (const other of document.querySelectorAll("section")) other.hidden = other !== section;
    for (const item of section.querySelectorAll("script[type='application/json']")) {
      item.remove();
      await Bokeh.embed.embed_item(JSON.parse(item.textContent), item.dataset.target);
    }
    for (const run of ["this", "other"]) model(`${section.id}-${run}-choose`)?.execute(null);
    for (const source of section.querySelectorAll(".source")) {
      const first = source.querySelector("u b");  // what is fast needs no look
      if (first !== null) source.scrollTop = first.closest(".line").offsetTop - source.offsetTop - source.clientHeight / 3;
    }
  };
  const current = () => document.querySelector("section:not([hidden])");
  const sourceOf = (name) => document.getElementById(`${name}-source`) ?? current().querySelector(".source");
  const model = (name) => Bokeh.documents.map((d) => d.get_model_by_name(name)).find((m) => m !== null);

  const choose = (source, line) => {
    for (const chosen of current().querySelectorAll(".line.chosen")) chosen.classList.remove("chosen");
    const row = source.querySelector(`.line[data-line="${line}"]`);
    if (row === null) return;
    row.classList.add("chosen");
    source.scrollTop = row.offsetTop - source.offsetTop - source.clientHeight / 3;
  };
  const tell = (text) => { document.getElementById(`${current().id}-details`).textContent = text; };

  document.addEventListener("profile-instruction", ({detail: d}) => {
    const us = d.end - d.start;
    const place = d.line > 0 ? `, line ${d.line}` : ", line unknown";
    tell(`${d.op} on ${d.row}${place}: begins at ${d.start.toFixed(3)} µs, takes ${us.toFixed(3)} µs (${Math.round(us * d.cycles_per_us)} cycles)`);
    choose(sourceOf(d.name), d.line);
  });
  document.addEventListener("profile-line", ({detail: d}) => choose(current().querySelector(".source"), d.line));

  // From a line to its instructions: in every run that shows this text.
  const mark = (source, line) => {
    let count = 0, cycles = 0;
    const shared = current().querySelectorAll(".source").length === 1;
    for (const run of ["this", "other"]) {
      const name = `${current().id}-${run}`;
      const instructions = model(`${name}-instructions`);
      if (instructions === undefined || !(shared || source.id === `${name}-source`)) continue;
      const {line: lines, left, right} = instructions.data;
      const found = [];
      for (let i = 0; i < lines.length; i++) if (lines[i] === line) { found.push(i); cycles += right[i] - left[i]; }
      count += found.length;
      instructions.marked = found;  // nobody has clicked on one of them
      instructions.selected.indices = found;
    }
    choose(source, line);
    tell(`line ${line}: ${count} instructions, ${cycles.toFixed(3)} µs on all pipes together`);
  };
  document.addEventListener("click", ({target}) => {
    const row = target.closest(".line");
    if (row !== null) mark(row.closest(".source"), Number(row.dataset.line));
    const cells = target.closest("tr[data-line]");
    if (cells !== null) {
      const source = current().querySelector(".source");
      mark(source, Number(cells.dataset.line));
      source.scrollIntoView({block: "nearest"});
    }
  });
  document.getElementById("kernels")?.addEventListener("change", ({target}) => show(document.getElementById(target.value)));
  show(document.querySelector("section"));
}
