"""How a reader looks at a picture: it fits the window, the wheel zooms, dragging moves, a double click fits it again.

The script is a part of the file. It asks for nothing, and without it the picture is as large as the window.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SCRIPT", "standalone"]

SCRIPT: Final = """
(() => {
  const steps = 1.2;
  for (const svg of document.querySelectorAll("svg[viewBox]")) {
    const whole = svg.getAttribute("viewBox").split(" ").map(Number);
    let seen = [...whole];
    const show = () => svg.setAttribute("viewBox", seen.map((n) => n.toFixed(2)).join(" "));
    const scale = () => {
      const box = svg.getBoundingClientRect();
      return Math.max(seen[2] / box.width, seen[3] / box.height);
    };
    const place = (event) => {
      const at = svg.createSVGPoint();
      at.x = event.clientX;
      at.y = event.clientY;
      return at.matrixTransform(svg.getScreenCTM().inverse());
    };
    const zoom = (factor, at) => {
      const width = Math.min(Math.max(seen[2] * factor, whole[2] / 40), whole[2] * 4);
      factor = width / seen[2];
      seen = [at.x - (at.x - seen[0]) * factor, at.y - (at.y - seen[1]) * factor, width, seen[3] * factor];
      show();
    };
    const middle = () => ({ x: seen[0] + seen[2] / 2, y: seen[1] + seen[3] / 2 });
    const fit = () => { seen = [...whole]; show(); };
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      zoom(event.deltaY > 0 ? steps : 1 / steps, place(event));
    }, { passive: false });
    let from = null;
    svg.addEventListener("pointerdown", (event) => {
      from = [event.clientX, event.clientY];
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (from === null) return;
      const unit = scale();
      seen[0] -= (event.clientX - from[0]) * unit;
      seen[1] -= (event.clientY - from[1]) * unit;
      from = [event.clientX, event.clientY];
      show();
    });
    for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { from = null; });
    svg.addEventListener("dblclick", fit);
    svg.style.cursor = "grab";
    svg.style.touchAction = "none";
    const section = svg.closest("section");
    if (section === null) continue;
    const bar = document.createElement("div");
    bar.className = "view";
    for (const [word, about, act] of [["+", "larger", () => zoom(1 / steps, middle())],
                                      ["\\u2212", "smaller", () => zoom(steps, middle())],
                                      ["fit", "all of it", fit]]) {
      const button = document.createElement("button");
      button.textContent = word;
      button.title = about;
      button.addEventListener("click", act);
      bar.append(button);
    }
    section.insertBefore(bar, svg);
  }
})();
"""
"""Zooms and moves each picture of a page."""

_STYLE: Final = "max-width: 100%; max-height: 100vh; width: 100%; height: 100vh"


def standalone(picture: str) -> str:
    """A picture as a file of its own that fits the window of a browser, and that can be zoomed and moved there."""
    head, _, rest = picture.partition(">")
    body = rest.rstrip().removesuffix("</svg>")
    return f'{head} style="{_STYLE}">{body}<script><![CDATA[{SCRIPT}]]></script>\n</svg>\n'
