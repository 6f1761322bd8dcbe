"use strict";
const part = (id) => document.getElementById(id);
let source = null;

function fade() {
  const wanted = part("filter").value.trim().toLowerCase();
  for (const box of document.querySelectorAll("[data-flows]"))
    box.classList.toggle("tt-faded", !box.dataset.flows.toLowerCase().includes(wanted));
  for (const row of document.querySelectorAll("[data-flow]"))
    row.hidden = !row.dataset.flow.toLowerCase().includes(wanted);
}

function show(parts) {
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.operator : null;
  for (const [id, text] of Object.entries(parts)) part(id).innerHTML = text;
  if (focused) document.querySelector(`[data-operator="${CSS.escape(focused)}"]`)?.focus();
  fade();
}

function look() {
  source = new EventSource("page/events");
  source.addEventListener("parts", (event) => {
    part("login").hidden = true;
    part("tools").hidden = part("view").hidden = false;
    part("live").textContent = "live";
    show(JSON.parse(event.data));
  });
  source.onerror = () => {
    part("live").textContent = "not connected";
    if (source.readyState === EventSource.CLOSED) leave();
  };
}

function leave() {
  if (source) source.close();
  part("login").hidden = false;
  part("tools").hidden = part("view").hidden = true;
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
look();
