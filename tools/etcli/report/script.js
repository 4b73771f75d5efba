"use strict";
// The caption below a map says what was pointed at: tooltips don't exist on phones.
for (const map of document.querySelectorAll(".map")) {
  const caption = map.nextElementSibling;
  const initial = caption.textContent;
  let chosen = null;
  const say = (cell) => { caption.textContent = cell ? cell.title : initial; };
  map.addEventListener("pointerover", (event) => {
    if (!chosen) say(event.target.closest(".leaf"));
  });
  map.addEventListener("pointerleave", () => { if (!chosen) say(null); });
  map.addEventListener("click", (event) => {
    const cell = event.target.closest(".leaf");
    if (chosen) chosen.classList.remove("on");
    chosen = cell === chosen ? null : cell;
    if (chosen) chosen.classList.add("on");
    say(cell);
  });
}
