"""The page that translates, without a mouse: the tab key reaches every part in the order of the page, each says that it
has the focus, and Enter, Space and the arrow keys do what a click does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browsers import Firefox
from tests.tools.page.models import TEXTS
from tests.tools.page.opened import Opened
from transformer import Translator
from transformer.tools.page.export import build

PANELS = ("attention", "stepwise", "search", "arithmetic", "what-if")
# Of what can be operated: its place in the page, its name, whether its focus is seen, and the group whose arrow keys
# lead to it.
FOCUSED = """() => {
  const element = document.activeElement, everything = [...document.querySelectorAll("*")];
  const ringed = [element, element.nextElementSibling, element.closest("label")].filter(Boolean).map(getComputedStyle)
    .some(style => style.outlineStyle === "solid" && parseFloat(style.outlineWidth) >= 2);
  const group = element.name || element.closest("[role=tablist], [role=toolbar], #columns")?.id || "";
  return { at: everything.indexOf(element), name: element.id || element.outerHTML.slice(0, 80), ringed, group };
}"""
TO_OPERATE = """() => {
  const everything = [...document.querySelectorAll("*")];
  return [...document.querySelectorAll("button:enabled, input, textarea, [tabindex]")]
    .filter(element => element.checkVisibility())
    .map(element => ({
      at: everything.indexOf(element), name: element.id || element.outerHTML.slice(0, 80),
      group: (element.type === "radio" && element.name)
        || element.closest("[role=tablist], [role=toolbar], #columns")?.id || "",
    }));
}"""


@pytest.fixture(scope="module")
def live_path(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("live") / "page.html"
    (path).write_text(build(translator, "float16", TEXTS[0], "a run/translator.safetensors"), encoding="utf-8")
    return path


def check_tab_order(evaluate: Callable[[str], Any], press: Callable[[str], None]) -> None:
    """Walks from the box to type in to the end of the page, and compares with what there is to operate."""
    evaluate("() => document.querySelector('#input').focus()")
    there = [one for one in evaluate(TO_OPERATE) if one["at"] >= evaluate(FOCUSED)["at"]]
    reached = [evaluate(FOCUSED)]
    while reached[-1]["at"] < there[-1]["at"] and not (
        there[-1]["group"] and reached[-1]["group"] == there[-1]["group"]
    ):
        press("Tab")
        reached.append(evaluate(FOCUSED))
        assert reached[-1]["at"] > reached[-2]["at"], "the tab key goes down the page"
    assert [one["name"] for one in reached if not one["ringed"]] == []
    places, groups = {one["at"] for one in reached}, {one["group"] for one in reached}
    assert [one["name"] for one in there if one["at"] not in places and one["group"] not in groups - {""}] == []
    walked = [one["group"] for one in reached if one["group"]]
    assert len(walked) == len(set(walked)), "one stop of the tab key for each group"


def drawn(live: Opened, panel: str) -> None:
    if panel == "search":
        live.page.locator("#columns button").first.wait_for()
    if panel == "arithmetic":
        live.page.locator("#stages li").last.wait_for()
    if panel == "what-if":
        live.page.wait_for_function("() => document.querySelector('#after-text').textContent")


@pytest.mark.long
def test_the_tab_key_reaches_every_part_of_every_panel_and_each_shows_it(live: Opened) -> None:
    live.page.locator("#method input[value=beam]").focus()
    live.page.keyboard.press("Space")
    for panel in ("search", *PANELS):  # the first waits for the new search: a panel that is drawn anew loses the focus
        live.page.locator(f"#tab-{panel}").focus()
        drawn(live, panel)
        check_tab_order(live.page.evaluate, live.page.keyboard.press)


def test_the_translation_is_typed_searched_and_forced_by_keys_alone(live: Opened) -> None:
    keyboard, focused = live.page.keyboard, lambda: live.page.evaluate(FOCUSED)
    keyboard.press("Tab")
    assert live.page.evaluate("document.activeElement.id") == "tour-start"
    keyboard.press("Tab")
    assert focused()["group"] == "language"
    keyboard.press("Tab")
    assert focused()["name"] == "input"
    keyboard.press("Control+A")
    keyboard.type(TEXTS[1])
    live.page.wait_for_function("text => document.title.startsWith(text)", arg=TEXTS[1])
    keyboard.press("Tab")
    keyboard.press("ArrowRight")
    assert live.page.locator("#method input:checked").get_attribute("value") == "beam"
    keyboard.press("Tab")
    keyboard.press("ArrowDown")
    assert live.page.locator("#beam").input_value() == "4"
    live.page.locator("#target .piece[tabindex='0']").focus()
    keyboard.press("ArrowRight")
    assert live.current() == "target2"
    live.page.locator("#choices button").first.focus()
    keyboard.press("Enter")
    live.page.locator("#forced").wait_for()
    assert live.page.evaluate("document.activeElement.closest('#choices') !== null"), "the focus stays in the list"
    live.page.locator("#unforce").focus()
    keyboard.press("Enter")
    live.page.locator("#forced").wait_for(state="hidden")
    assert focused()["group"] == "method"


@pytest.mark.long
def test_the_arrow_keys_walk_through_the_tree_and_enter_forces_a_node(live: Opened) -> None:
    live.page.locator("#method input[value=beam]").focus()
    live.page.keyboard.press("Space")
    live.page.locator("#tab-search").focus()
    live.page.locator("#columns button[tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowDown"):
        live.page.keyboard.press(key)
    second = "document.querySelectorAll('.column')[2].querySelectorAll('button')[1]"
    assert live.page.evaluate(f"document.activeElement === {second}")
    piece = live.page.evaluate("document.activeElement.querySelector('b').textContent")
    live.page.keyboard.press("Enter")
    live.page.locator("#forced").wait_for()
    assert f"“{piece}”" in live.page.locator("#forced-what").inner_text()
    assert live.page.evaluate("document.activeElement.closest('#columns') !== null"), "the focus stays in the tree"
    live.page.locator("#grown").focus()
    live.page.keyboard.press("Home")
    assert live.page.locator("#columns .column").count() == 2


@pytest.mark.long
def test_steps_parts_and_languages_are_chosen_by_keys_alone(live: Opened) -> None:
    keyboard = live.page.keyboard
    live.page.locator("#tab-stepwise").focus()
    live.page.locator("#step-next").focus()
    keyboard.press("Enter")
    keyboard.press("Space")
    assert live.page.locator("#so-far .done").count() == 3
    live.page.locator("#tab-what-if").focus()
    live.page.locator("#switches input").first.focus()
    keyboard.press("Space")
    live.page.wait_for_function("() => document.querySelector('#verdict').textContent.includes('bag of words')")
    live.page.locator("#tab-arithmetic").focus()
    live.page.locator("#unfold-head input:checked").focus()
    keyboard.press("ArrowRight")
    assert live.page.locator("#unfold-head input:checked").input_value() == "1"
    assert live.page.evaluate(FOCUSED)["group"] == "unfold-head", "the focus stays in the choice"
    live.page.locator("#language input:checked").focus()
    keyboard.press("ArrowRight")
    assert live.page.locator("html").get_attribute("lang") == "zh"
    assert live.page.evaluate(FOCUSED)["group"] == "language"


@pytest.mark.long
def test_the_tab_key_reaches_every_part_in_firefox_too(firefox: Firefox, live_path: Path) -> None:
    firefox.open(live_path)
    firefox.evaluate(
        """async () => {
          while (!document.querySelector("#target .piece")) await new Promise(resolve => setTimeout(resolve, 20));
        }"""
    )
    check_tab_order(firefox.evaluate, firefox.press)
