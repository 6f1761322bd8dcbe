"use strict";
const part = (id) => document.getElementById(id);
const asks = document.documentElement.dataset.kind === "workspace";
let source = null;

function fade() {
  const wanted = part("filter").value.trim().toLowerCase();
  for (const one of document.querySelectorAll("[data-words]")) {
    const away = !one.dataset.words.toLowerCase().includes(wanted);
    if (one.tagName === "TR") one.hidden = away;
    else one.classList.toggle("tt-faded", away);
  }
}

function show(news) {
  const focused = document.activeElement?.dataset?.piece;
  for (const [id, text] of Object.entries(news.parts ?? {})) replace(part(id), text);
  if (news.pieces) {
    const known = new Map([...document.querySelectorAll("[data-piece]")].map((one) => [one.dataset.piece, one]));
    for (const [name, text] of Object.entries(news.pieces)) known.get(name).outerHTML = text;
  }
  if (focused && document.activeElement?.dataset?.piece !== focused) piece(focused)?.focus({ preventScroll: true });
  document.title = part("heading").textContent;
  fade();
}

// What somebody has opened or closed stays so, and what was scrolled stays where it is.
function replace(place, text) {
  const title = (one) => one.querySelector("summary").textContent;
  const open = new Map([...place.querySelectorAll("details")].map((one) => [title(one), one.open]));
  const { scrollLeft, scrollTop } = place;
  place.innerHTML = text;
  for (const one of place.querySelectorAll("details")) one.open = open.get(title(one)) ?? one.open;
  place.scrollTo(scrollLeft, scrollTop);
}

function piece(name) {
  return document.querySelector(`[data-piece="${CSS.escape(name)}"]`);
}

function look() {
  source = new EventSource("page/events");
  source.addEventListener("news", (event) => {
    part("login").hidden = true;
    part("tools").hidden = part("view").hidden = false;
    part("logout").hidden = !asks;
    part("live").textContent = "live";
    show(JSON.parse(event.data));
  });
  source.addEventListener("over", () => {
    source.close();
    part("live").textContent = "over: these are its last figures";
  });
  source.onerror = () => {
    part("live").textContent = "not connected";
    if (source.readyState === EventSource.CLOSED && asks) leave();
  };
}

function leave() {
  if (source) source.close();
  part("login").hidden = false;
  part("tools").hidden = part("view").hidden = true;
}

// The arrow keys go from a box to the nearest one in their direction.
function step(event) {
  const here = event.target.closest?.("#graph [data-piece]");
  const way = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
  if (!here || !way) return;
  event.preventDefault();
  const place = (one) => ((r) => [r.x + r.width / 2, r.y + r.height / 2])(one.getBoundingClientRect());
  const [x, y] = place(here);
  let best = null, least = Infinity;
  for (const one of document.querySelectorAll("#graph [data-piece]")) {
    const [a, b] = place(one);
    const along = (a - x) * way[0] + (b - y) * way[1];
    const across = Math.abs((a - x) * way[1]) + Math.abs((b - y) * way[0]);
    if (along > 1 && along + 3 * across < least) [best, least] = [one, along + 3 * across];
  }
  best?.focus();
}

part("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const body = JSON.stringify({ token: part("token").value });
  const answer = await fetch("page/session", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  part("problem").textContent = answer.ok ? "" : (await answer.json()).message;
  part("token").value = "";
  if (answer.ok) look();
});
part("logout").addEventListener("click", async () => {
  await fetch("page/session", { method: "DELETE" });
  leave();
});
part("filter").addEventListener("input", fade);
part("fit").addEventListener("change", () => part("graph").classList.toggle("fit", part("fit").checked));
document.addEventListener("keydown", step);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== part("filter") && !part("view").hidden) {
    event.preventDefault();
    part("filter").focus();
  } else if (event.key === "Escape" && document.activeElement === part("filter")) {
    part("filter").value = "";
    fade();
  }
});
look();
