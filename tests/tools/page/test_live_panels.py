"""The controls of the page that translates do what they say, and what is shown is what the translator answers."""

import math
from pathlib import Path
from typing import Any

import pytest

from tests.browsers import Chromium
from tests.tools.page.models import TEXTS
from tests.tools.page.opened import Opened
from tests.tools.server.models import english_and_french
from transformer import Translator
from transformer.tools.page.export import build

TEXT = "der kleine Hund läuft"


@pytest.fixture(scope="module")
def live_path(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("live") / "page.html"
    (path).write_text(build(translator, "float16", TEXT), encoding="utf-8")
    return path


def explained(live: Opened, text: str = TEXT, **options: Any) -> dict[str, Any]:
    return live.page.evaluate("([text, options]) => translator.explain(text, options)", [text, options])


def wait_for_text(live: Opened, selector: str, text: str) -> None:
    live.page.wait_for_function(
        "([selector, text]) => document.querySelector(selector)?.innerText.trim() === text", arg=[selector, text]
    )


def in_tab(live: Opened, panel: str) -> None:
    live.page.locator(f"#tab-{panel}").click()


def test_drawing_again_and_the_temperature_give_other_samples(live: Opened) -> None:
    live.choose("method", "sampling")
    first, second, cold = (
        explained(live, method="sampling", **options)["translation"]
        for options in ({"seed": 1}, {"seed": 2}, {"seed": 2, "temperature": 0.1})
    )
    assert len({first, second, cold}) == 3
    wait_for_text(live, "#target-text", first)
    live.page.locator("#again").click()
    wait_for_text(live, "#target-text", second)
    live.page.locator("#temperature").fill("0.1")
    wait_for_text(live, "#target-text", cold)


@pytest.mark.long
def test_the_length_penalty_that_is_typed_is_searched_with(live: Opened) -> None:
    live.choose("method", "beam")
    in_tab(live, "search")
    live.page.locator("#length-penalty").fill("0.3")
    wait_for_text(live, "#scoring sup", "0.3")
    found = explained(live, method="beam", length_penalty=0.3)["hypotheses"]
    scores = live.page.locator("#hypotheses tbody td:last-child").all_inner_texts()
    assert [float(score) for score in scores] == pytest.approx([one["score"] for one in found], abs=6e-5)


@pytest.mark.long
def test_only_the_numbers_of_the_chosen_search_are_asked_for(live: Opened) -> None:
    asked = {"greedy": [], "beam": ["beam", "length-penalty"], "sampling": ["temperature", "again"]}
    for method, names in asked.items():
        live.choose("method", method)
        shown = "all => all.filter(one => one.checkVisibility()).map(one => one.id)"
        assert live.page.locator("#options [data-for] input, #options #again").evaluate_all(shown) == names


def force_another(live: Opened) -> str:
    """Puts another piece at the second step; returns what it is."""
    live.piece("target", 2).click()
    piece = live.page.locator("#choices button").first.inner_text()
    live.page.locator("#choices button").first.click()
    live.page.locator("#forced").wait_for()
    return piece.removeprefix("▁")


def test_the_piece_that_was_forced_is_named(live: Opened) -> None:
    piece = force_another(live)
    assert live.page.locator("#forced-what").inner_text().startswith(f"You chose “{piece}”")


def test_what_is_typed_lets_go_of_the_forced_piece(live: Opened) -> None:
    force_another(live)
    live.page.locator("#input").fill("ein Haus")
    wait_for_text(live, "#target-text", explained(live, "ein Haus")["translation"])
    assert not live.page.locator("#forced").is_visible()


@pytest.mark.long
def test_another_sentence_lets_go_of_the_forced_piece(live: Opened) -> None:
    live.page.locator("#input").fill("Ein Haus. Der Hund läuft.")
    live.page.locator("#sentence-choice").wait_for()
    force_another(live)
    live.choose("sentence-choice", "1")
    wait_for_text(live, "#target-text", explained(live, "Ein Haus. Der Hund läuft.")["full_translation"])
    assert not live.page.locator("#forced").is_visible()


@pytest.mark.long
def test_another_direction_lets_go_of_the_forced_piece_and_stays_chosen(browser: Chromium, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(build(english_and_french(), "float16", TEXT), encoding="utf-8")
    opened = Opened(browser, tmp_path / "page.html", viewport={"width": 1100, "height": 900})
    opened.piece("target", 2).wait_for()
    force_another(opened)
    opened.page.locator("#direction").select_option("1")
    opened.page.locator("#forced").wait_for(state="hidden")
    assert opened.page.locator("#direction").input_value() == "1"
    assert opened.errors == []
    opened.close()


def test_a_number_outside_its_limits_is_told_with_what_is_used_instead(live: Opened) -> None:
    live.choose("method", "sampling")
    live.page.locator("#temperature").fill("9")
    wait_for_text(live, "#notice", "The temperature must be from 0.1 to 5: 1 is used instead.")
    live.choose("method", "beam")  # whose fields are in order
    wait_for_text(live, "#notice", "")
    live.page.locator("#length-penalty").fill("-1")
    wait_for_text(live, "#notice", "The length penalty must be from 0 to 3: 1 is used instead.")
    live.page.locator("#length-penalty").fill("0.6")
    wait_for_text(live, "#notice", "")


@pytest.mark.long
def test_a_notice_tells_the_words_before_a_cut_and_goes_with_them(live: Opened) -> None:
    text = ", ".join([TEXTS[3]] * 10)
    live.page.locator("#input").fill(text)
    live.page.wait_for_function("() => document.querySelector('#notice').textContent")
    cut = explained(live, text)["sentences"][0]["cut"]
    assert live.page.locator("#notice").inner_text().endswith(f"after “…{text[: cut['at']][-30:]}”.")
    live.page.locator("#input").fill("ja")
    wait_for_text(live, "#notice", "")


def test_the_title_of_an_empty_page_is_no_old_translation(live: Opened) -> None:
    assert live.page.title().startswith(TEXT)
    live.page.locator("#input").fill("")
    live.page.locator("#panels").wait_for(state="hidden")
    assert live.page.title() == "A translation, from the inside"


@pytest.mark.long
def test_a_node_of_the_tree_tells_its_score_and_log_probability(live: Opened) -> None:
    live.choose("method", "beam")
    in_tab(live, "search")
    tree = explained(live, method="beam", tree=True)["tree"]
    column = live.page.locator("#columns .column").nth(2)
    live.page.locator("#columns .column").nth(len(tree)).wait_for()
    nodes = column.evaluate(
        "column => [...column.children].map(one => [one.querySelector('small').innerText, one.title])"
    )
    assert nodes == [
        [f"{one['score']:.2f}", f"log-probability {one['total']:.3f}, score {one['score']:.3f}"]
        for one in tree[1]["candidates"]
    ]


@pytest.mark.long
def test_the_end_of_a_translation_cannot_be_forced_in_the_tree(live: Opened) -> None:
    live.choose("method", "beam")
    in_tab(live, "search")
    live.page.locator("#columns .node.best").last.wait_for()
    last = live.page.locator("#columns .node.best").last
    assert last.locator("b").inner_text() == "</s>"
    assert last.evaluate("node => node.localName") == "span"


@pytest.mark.long
def test_the_tree_grows_by_itself_until_it_is_whole(live: Opened) -> None:
    live.page.locator("#input").fill("ja")
    live.choose("method", "beam")
    in_tab(live, "search")
    count = len(explained(live, "ja", method="beam", tree=True)["tree"])
    live.page.locator("#columns .column").nth(count).wait_for()
    live.page.locator("#grown").fill(str(count - 2))
    assert live.page.locator("#grown-count").inner_text() == f"step {count - 2} of {count}"
    live.page.locator("#grow").click()
    assert live.page.locator("#columns .column").count() == 2
    live.page.locator("#columns .column").nth(2).wait_for()
    live.page.locator("#grown").fill(str(count))
    live.page.locator("#input").fill(TEXT)  # a tree shown whole is so for the next sentence
    longer = len(explained(live, method="beam", tree=True)["tree"])
    assert longer > count
    live.page.locator("#columns .column").nth(longer).wait_for()


def number(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def unfolded(live: Opened, attention: str, layer: int, head: int) -> dict[str, tuple[list[int], list[float]]]:
    """Shows an attention in the arithmetic; gives the shapes and numbers of its matrices, once they are drawn."""
    in_tab(live, "arithmetic")
    live.page.locator("#stages li").last.wait_for()
    for name, value in (("attention", attention), ("layer", str(layer)), ("head", str(head))):
        live.choose(f"unfold-{name}", value)
    trace = explained(live, trace={"attention": attention, "layer": layer, "head": head})["trace"]["steps"]
    matrices = {step["name"]: (step["shape"], step["values"]) for step in trace}
    live.page.wait_for_function(
        """([name, read]) => [...document.querySelectorAll("#stages figure")].some(figure =>
          figure.querySelector("b").innerText === name && figure.querySelector("output").innerText.endsWith(read))""",
        arg=["A", f"= {number(matrices['weights'][1][0])}"],
    )
    return matrices


@pytest.mark.long
def test_the_chosen_layer_and_head_are_those_that_unfold(live: Opened) -> None:
    found = [unfolded(live, "cross", 1, head)["weights"] for head in (0, 1)]
    assert found[0] != found[1]


@pytest.mark.long
def test_a_pointer_over_a_matrix_reads_its_number(live: Opened) -> None:
    _, weights = unfolded(live, "cross", 0, 0)["weights"]
    name, read = live.page.locator("#source .piece b").nth(2), live.page.locator("figure.pairs output").last
    live.page.locator("figure.pairs .numbers").last.hover(position={"x": 22 * 2 + 9, "y": 9})
    assert read.inner_text() == f"A [“<s>”, “{name.text_content()}”] = {number(weights[2])}"
    live.page.mouse.move(1, 1)
    assert read.inner_text().endswith(f"= {number(weights[0])}")


@pytest.mark.long
def test_a_pair_that_is_clicked_is_followed_from_its_score_to_its_share(live: Opened) -> None:
    steps = unfolded(live, "decoder", 0, 0)
    live.page.locator("figure.pairs .numbers").last.click(position={"x": 9, "y": 22 * 2 + 9})
    product, scaled, share = (steps[name][1][2 * steps[name][0][1]] for name in ("product", "scaled", "weights"))
    name = live.page.locator("#target .piece b").nth(2).text_content()
    chain, written = live.page.locator("#chain").inner_text().removesuffix("%").split(" softmax ")
    masked = f"mask {number(scaled)} →"
    assert chain == f"“{name}” asks “<s>”: score {number(product)} → ÷ √dₖ {number(scaled)} → {masked}"
    assert float(written) == pytest.approx(100 * share, abs=0.51)


def test_a_masked_pair_has_no_share_at_all(live: Opened) -> None:
    unfolded(live, "decoder", 0, 0)
    live.page.locator("figure.pairs .numbers").last.click(position={"x": 22 * 2 + 9, "y": 9})
    assert live.page.locator("#chain").inner_text().endswith("→ mask −∞ → softmax 0%")


@pytest.mark.long
def test_a_click_on_a_row_of_keys_chooses_the_key_that_is_followed(live: Opened) -> None:
    unfolded(live, "cross", 0, 0)
    name = live.page.locator("#source .piece b").nth(2).text_content()
    keys = live.page.locator("figure", has=live.page.get_by_text("K", exact=True))
    keys.locator(".numbers").click(position={"x": 5, "y": 15 * 2 + 7})
    assert live.page.locator("#chain b").first.inner_text() == f"“<s>” asks “{name}”:"


@pytest.mark.long
def test_positive_numbers_are_orange_negative_blue_and_masked_gray(live: Opened) -> None:
    (rows, columns), masked = unfolded(live, "decoder", 0, 0)["masked"]
    canvas = live.page.locator("figure", has=live.page.get_by_text("mask", exact=True)).locator("canvas")
    pixels = canvas.evaluate(
        """canvas => {
          const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
          return Array.from({ length: data.length / 4 }, (_, at) => [...data.slice(4 * at, 4 * at + 4)]);
        }"""
    )
    assert len(pixels) == rows * columns
    largest = max(abs(value) for value in masked if value != float("-inf"))
    kinds = set()
    for (red, _, blue, alpha), value in zip(pixels, masked, strict=True):
        if value == float("-inf"):
            kind, right = "hidden", abs(red - blue) < 30 and alpha == 255
        elif abs(value) < largest / 10:
            continue
        else:
            kind, right = ("positive", red > blue) if value > 0 else ("negative", blue > red)
        kinds.add(kind)
        assert right, (value, red, blue)
    assert "hidden" in kinds


def what_if(live: Opened, text: str = TEXT) -> None:
    in_tab(live, "what-if")
    wait_for_text(live, "#before-source", text)


def scores(live: Opened, **modify: Any) -> tuple[dict[str, Any], str]:
    """What is found with these changes, and the mean probability of a piece of it."""
    found = explained(live, modify=modify)
    best = found["hypotheses"][0]
    share = 100 * math.exp(best["log_probability"] / best["length"])
    return found, f"{share:.0f}%" if share >= 9.95 else f"{share:.1f}%"


SWITCHED = [
    (
        "#switches label:nth-child(5) input",
        {"padding": 4},
        "Four padding symbols",
    ),
    ("#parts tr:nth-child(2) th input", {"layers": [{"side": "encoder", "layer": 1}]}, "A layer that is switched off"),
    (
        "[aria-label='cross-attention, layer 2, head 2']",
        {"heads": [{"attention": "cross", "layer": 1, "head": 1}]},
        "A head that is switched off",
    ),
]


@pytest.mark.long
@pytest.mark.parametrize(("selector", "modify", "words"), SWITCHED, ids=["padding", "layer", "head"])
def test_what_is_switched_off_is_what_the_second_translation_lacks(
    live: Opened, selector: str, modify: dict[str, Any], words: str
) -> None:
    what_if(live)
    wait_for_text(live, "#verdict", "Nothing is switched off.")
    (before, share_before), (after, share_after) = scores(live), scores(live, **modify)
    assert share_before != share_after
    live.page.locator(selector).click()
    live.page.wait_for_function(
        "share => document.querySelector('#after-score').innerText.endsWith(` ${share}`)", arg=share_after
    )
    assert live.page.locator("#before-score").inner_text().endswith(f" {share_before}")
    verdict = live.page.locator("#verdict").inner_text()
    assert verdict.startswith("The words stay the same." if after["target"] == before["target"] else "Changed: ")
    assert words in verdict
    live.page.locator("#all-on").click()
    wait_for_text(live, "#verdict", "Nothing is switched off.")
    assert live.page.locator("#panel-what-if input:checked").count() == live.page.locator("#parts input").count()


@pytest.mark.long
def test_the_source_is_shown_in_the_order_that_it_was_shuffled_to(live: Opened) -> None:
    live.page.locator("#input").fill(TEXTS[3])
    what_if(live, TEXTS[3])
    live.page.locator("#switches input").last.check()
    live.page.locator("#verdict", has_text="in another order").wait_for()
    shuffled = live.page.locator("#after-source").inner_text()
    assert shuffled != live.page.locator("#before-source").inner_text() == TEXTS[3]
    assert sorted(shuffled.split()) == sorted(TEXTS[3].split())


@pytest.mark.long
def test_what_if_compares_with_the_text_and_the_search_of_today(live: Opened) -> None:
    what_if(live)
    live.page.locator("#input").fill("ein Haus")
    greedy = explained(live, "ein Haus")["translation"]
    for name in ("before", "after"):
        wait_for_text(live, f"#{name}-text", greedy)
    live.page.locator("#input").fill(TEXT)
    live.choose("method", "sampling")
    pieces = explained(live, method="sampling")["target"][1:-1]
    drawn = "".join(pieces).replace("▁", " ").strip()  # an unknown one too, which a text shows as ⁇
    for name in ("before", "after"):
        wait_for_text(live, f"#{name}-text", drawn)
        assert live.page.locator(f"#{name}-text").get_attribute("lang") == "en"
        assert live.page.locator(f"#{name}-source").get_attribute("lang") == "de"
