"""Pages are moved about in by wheel and keys, searched, reached without a mouse, and narrow where the screen is."""

import html
import json
import re

import pytest
from support.browser import needs_chromium, rendered
from support.command_line import run

PLAN = ("plan", "mlp", "--widths", "64,512,512,512,10", "--batch-size", "512", "--budget", "90%")
USE = """
const said = {}, chart = document.getElementById("chart"), reset = document.getElementById("reset");
const where = () => document.querySelector("#largest .where").textContent;
const key = (name, at = document) => at.dispatchEvent(new KeyboardEvent("keydown", {key: name, bubbles: true, cancelable: true}));
const box = chart.getBoundingClientRect();
const at = {clientX: box.left + 300, clientY: box.top + 50, bubbles: true, cancelable: true};
const wheel = (by) => chart.dispatchEvent(new WheelEvent("wheel", {deltaY: by, ...at}));
const zoomed = () => !reset.hidden;
said.whole = zoomed();
key("w"); said.w = zoomed();
key("0"); said.zero = zoomed();
said.taken = !wheel(-100); said.wheel = zoomed();
key("d"); key("a"); key("s"); key("s"); key("s"); said.sss = zoomed();
said.leftToThePage = wheel(100);
said.tab = chart.tabIndex;
chart.focus();
key("ArrowRight", chart); key("ArrowRight", chart);
said.tooltip = document.getElementById("tooltip").textContent;
key("Enter", chart); said.chosen = where();
key("/"); said.focus = document.activeElement.id;
const field = document.getElementById("search");
field.value = "LAYER4.1"; field.dispatchEvent(new Event("input"));
said.found = where();
said.rows = [...document.querySelectorAll("#top td.name")].map((cell) => cell.textContent);
said.facts = document.getElementById("facts").textContent;
said.verdict = document.getElementById("verdict").textContent;
document.documentElement.dataset.said = JSON.stringify(said);
"""
NARROW = """
window.addEventListener("load", () => {
  const inside = document.querySelector("iframe").contentDocument, parts = [...inside.querySelectorAll("main > *, header, footer")];
  const wide = parts.filter((node) => node.scrollWidth > 391).map((node) => node.id || node.tagName);
  const legible = getComputedStyle(inside.querySelector("#facts dd")).fontSize;
  document.documentElement.dataset.said = JSON.stringify({wide, scrolls: inside.documentElement.scrollWidth > 390, legible});
});
"""


def said_in(dom):
    return json.loads(re.search(r'data-said="(.*?)"', dom).group(1).replace("&quot;", '"').replace("&amp;", "&"))


@needs_chromium
def test_wheel_keys_and_search(tmp_path):
    page = tmp_path / "page.html"
    assert run("estimate", "resnet18", "--gpu", "t4", "-o", page).returncode == 0
    said = said_in(rendered(page, USE, tmp_path))
    assert [said[step] for step in ("whole", "w", "zero", "wheel", "sss")] == [False, True, False, True, False]
    assert said["taken"] and said["leftToThePage"]  # what changes nothing scrolls the page
    assert said["tab"] == 0 and said["focus"] == "search"
    assert "allocated" in said["tooltip"] and said["chosen"].startswith("at event")
    assert re.match(r"\d+ holds? “layer4\.1”, of [\d,]+ in the whole run", said["found"])
    assert said["rows"] and all("layer4.1" in name for name in said["rows"])
    assert "sgd" in said["facts"] and "t4" in said["facts"] and "ebbtide estimate resnet18 --gpu t4" in said["facts"]
    assert said["verdict"] == "Fits, and so does the safe figure"


@needs_chromium
@pytest.mark.parametrize("words", [("estimate", "resnet18"), PLAN, ("fit", "mlp", "--gpu", "t4"),
                                   ("share", "mlp:8", "mlp:8", "--gpu", "t4")], ids=lambda words: words[0])
def test_a_phone_s_width_is_enough(words, tmp_path):
    """Nothing but tables, which scroll by themselves, is wider than 390 pixels."""
    page = tmp_path / "page.html"
    assert run(*words, "-o", page).returncode == 0
    frame = f'<body><iframe style="width:390px;height:3000px;border:0" srcdoc="{html.escape(page.read_text())}"></iframe></body>'
    page.write_text(frame)
    assert said_in(rendered(page, NARROW, tmp_path)) == {"wide": [], "scrolls": False, "legible": "14px"}


def test_paper_is_light_and_has_its_colours(tmp_path):
    page = tmp_path / "page.html"
    run("estimate", "mlp", "-o", page)
    text = page.read_text()
    assert "print-color-adjust: exact" in text and '"beforeprint"' in text
