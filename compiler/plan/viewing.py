"""How a reader looks at a picture.

On a page it fits the window; buttons enlarge it, and it is moved by scrolling. That takes styles alone: many viewers of HTML run
no script. A picture in a file of its own has a script for a browser: the wheel zooms, dragging moves, a double click shows all of
it. Viewers that run no script show all of it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FRAMES", "framed", "standalone"]

_SIZES: Final = ("fit", "100 %", "200 %", "400 %")

FRAMES: Final = """\
.size { position: absolute; opacity: 0; pointer-events: none; }
.sizes { margin: 0 0 10px; }
.sizes label { display: inline-block; padding: 0 10px; margin-right: 4px; border: 1px solid #818b98; border-radius: 6px;
               font-size: 13px; cursor: pointer; }
.size-0:checked ~ .sizes .size-for-0, .size-1:checked ~ .sizes .size-for-1,
.size-2:checked ~ .sizes .size-for-2, .size-3:checked ~ .sizes .size-for-3 { background: #818b9855; font-weight: 600; }
.size:focus-visible ~ .sizes { outline: 2px solid #388bfd; outline-offset: 3px; }
.frame { overflow: auto; height: calc(100vh - 210px); min-height: 300px; resize: vertical; }
.frame svg { display: block; margin: 0 auto; width: 100%; height: 100%; }
.size-1:checked ~ .frame svg { width: auto; height: auto; }
.size-2:checked ~ .frame svg { width: 200%; height: auto; }
.size-3:checked ~ .frame svg { width: 400%; height: auto; }
"""
"""Styles of framed pictures."""


def framed(picture: str, name: str) -> str:
    """A picture that fits the window, with buttons for its size. ``name``: tells it from others on the page."""
    choices = "".join(
        f'<input class="size size-{at}" type="radio" name="{name}" id="{name}-{at}"{"" if at else " checked"}>\n'
        for at in range(len(_SIZES))
    )
    labels = "".join(f'<label class="size-for-{at}" for="{name}-{at}">{word}</label>' for at, word in enumerate(_SIZES))
    return f'{choices}<div class="sizes">{labels}</div>\n<div class="frame">\n{picture}</div>\n'


_SCRIPT: Final = """
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
  }
})();
"""
"""Zooms and moves the picture."""

_STYLE: Final = "max-width: 100%; max-height: 100vh; width: 100%; height: 100vh"


def standalone(picture: str) -> str:
    """A picture as a file of its own that fits the window of a browser, and that can be zoomed and moved there."""
    head, _, rest = picture.partition(">")
    body = rest.rstrip().removesuffix("</svg>")
    return f'{head} style="{_STYLE}">{body}<script><![CDATA[{_SCRIPT}]]></script>\n</svg>\n'
