/* Copyright (c) 2026 The rdma.fabric contributors */
/* GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt) */
/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finds, filters and sorts hosts. Without it the page shows everything; the policy of the page lets only this text run. */
(() => {
  "use strict";
  const bar = document.getElementById("find");
  const [input, choice, status] = ["input", "select", "[role=status]"].map((each) => bar.querySelector(each));
  const MOST = 100000;

  /* "gpu-[01:32].example.org,login" as the names that it stands for. */
  const unfold = (text) => text.split(",").flatMap((each) => {
    const range = /^(.*)\[(\d+):(\d+)\](.*)$/.exec(each);
    if (!range || range[3] - range[2] > MOST) return [each];
    const [, before, first, last, after] = range;
    return Array.from({ length: last - first + 1 }, (_, place) =>
      before + String(+first + place).padStart(first.length, "0") + after);
  });
  const entries = [...document.querySelectorAll("[data-hosts]")];
  const names = new Map(entries.map((entry) => [entry, unfold(entry.dataset.hosts)]));
  const rows = entries.filter((entry) => entry.dataset.state !== undefined);
  const words = new Map(rows.map((row) => [row, [...row.cells].slice(1).map((cell) => cell.textContent).join(" ")]));
  const all = new Set(entries.flatMap((entry) => names.get(entry)));
  const inRows = new Set(rows.flatMap((row) => names.get(row)));
  /* What holds entries is hidden when all of them are, and what is folded opens when one is found. */
  const groups = [...document.querySelectorAll("[data-group]")];
  const folds = [...document.querySelectorAll("details")];
  const opened = new Set();
  const shown = (element) => [...element.querySelectorAll("[data-hosts]")].some((entry) => !entry.hidden);

  const filter = () => {
    const terms = input.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
    const active = terms.length > 0 || choice.value !== "";
    const wanted = new Set();
    const matches = (text) => !terms.length || terms.some((term) => text.toLowerCase().includes(term));
    for (const row of rows) {
      if (choice.value && !row.dataset.state.split(" ").includes(choice.value)) continue;
      const whole = matches(words.get(row));
      for (const name of names.get(row)) if (whole || matches(name)) wanted.add(name);
    }
    /* A host that was not read has remarks and no row. */
    for (const name of all) {
      const asked = !choice.value || choice.value === "attention";
      if (!inRows.has(name) && asked && matches(name)) wanted.add(name);
    }
    for (const entry of entries) entry.hidden = active && !names.get(entry).some((name) => wanted.has(name));
    for (const group of groups) group.hidden = active && !shown(group);
    for (const fold of folds) {
      if (active && shown(fold)) {
        if (!fold.open) opened.add(fold);
        fold.open = true;
      } else if (opened.delete(fold)) {
        fold.open = false;
      }
    }
    status.textContent = active ? `${wanted.size} of ${all.size} hosts` : "";
  };
  input.addEventListener("input", filter);
  choice.addEventListener("change", filter);

  /* The tables of the fleet are one list, the first part of it unfolded. */
  const tables = [...document.querySelectorAll("table.fleet")];
  const bodies = tables.map((table) => table.tBodies[0]);
  const sizes = bodies.map((body) => body.rows.length);
  const heads = tables.map((table) => [...table.tHead.rows[0].cells]);
  const collator = new Intl.Collator("en", { numeric: true });
  const sort = (column, direction) => {
    const key = (row) => (column ? row.cells[column].textContent : row.dataset.hosts).trim();
    const sorted = direction === "none" ? [...rows] : [...rows].sort((one, other) =>
      collator.compare(key(one), key(other)) * (direction === "descending" ? -1 : 1));
    bodies.forEach((body, place) => body.append(...sorted.splice(0, sizes[place])));
    heads.forEach((cells) => cells.forEach((cell, place) =>
      cell.setAttribute("aria-sort", place === column ? direction : "none")));
  };
  const NEXT = { none: "ascending", ascending: "descending", descending: "none" };
  heads.forEach((cells) => cells.forEach((cell, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...cell.childNodes);
    button.addEventListener("click", () => sort(column, NEXT[cell.getAttribute("aria-sort") || "none"]));
    cell.append(button);
  }));
  bar.hidden = !rows.length;
})();
