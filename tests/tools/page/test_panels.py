"""What the panels write: every number and name is that of the piece, step or hypothesis that it stands beside."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.browsers import Chromium
from tests.tools.page.models import SEARCH, TEXTS
from tests.tools.page.opened import Opened
from transformer import Translator
from transformer.tools.page.explanation import explain, page

Show = Callable[[dict[str, Any]], Opened]


@pytest.fixture(scope="module")
def explained(translator: Translator) -> dict[str, Any]:
    return explain(translator, TEXTS[1], SEARCH)


@pytest.fixture
def show(browser: Chromium, tmp_path: Path) -> Iterator[Show]:
    shown: list[Opened] = []

    def show(explanation: dict[str, Any]) -> Opened:
        path = tmp_path / "page.html"
        path.write_text(page(explanation), encoding="utf-8")
        shown.append(Opened(browser, path, viewport={"width": 1100, "height": 900}))
        return shown[-1]

    yield show
    for opened in shown:
        assert opened.errors == []
        opened.close()


@pytest.fixture
def opened(show: Show, explained: dict[str, Any]) -> Opened:
    return show(explained)


def visible(piece: str) -> str:
    return piece.removeprefix("▁") or piece


def rows(opened: Opened, selector: str) -> list[list[str]]:
    return opened.page.locator(selector).evaluate_all(
        "rows => rows.map(row => [...row.children].map(child => child.innerText.trim()))"
    )


def assert_percent(written: str, share: float) -> None:
    """With a decimal below ten percent, and without one from there on."""
    if written == "<0.1%":
        assert share < 0.0006
        return
    assert ("." in written) == (share < 0.0995), (written, share)
    assert float(written.removesuffix("%")) == pytest.approx(100 * share, abs=0.06 if "." in written else 0.51)


def mean(explained: dict[str, Any], attention: str, query: int) -> list[float]:
    layers = explained["attention"][attention]
    return torch.tensor([head[query] for layer in layers for head in layer]).float().mean(0).div(1000).tolist()


def test_the_readout_names_the_step_and_the_layer_and_head(opened: Opened, explained: dict[str, Any]) -> None:
    opened.piece("target", 3).click()
    title = f"“{visible(explained['target'][3])}”: step 3 of {len(explained['steps'])}"
    assert opened.page.locator("#readout-title").inner_text() == title
    assert opened.page.locator("#readout-what").inner_text() == "cross-attention · mean of all layers and heads"
    opened.choose("layer", "1")
    opened.choose("head", "0")
    assert opened.page.locator("#readout-what").inner_text() == "cross-attention · layer 2 · head 1"
    chosen = opened.page.locator(".choice:has(input:checked)").all_inner_texts()
    assert [label.strip() for label in chosen] == ["English", "cross-attention", "2", "1"]


def test_the_readout_of_a_source_piece_tells_its_place(opened: Opened, explained: dict[str, Any]) -> None:
    assert opened.page.locator("#shares-title").inner_text() == "It looked most at"
    opened.piece("source", 1).click()
    title = f"“{visible(explained['source'][1])}”: piece 2 of {len(explained['source'])} of the source"
    assert opened.page.locator("#readout-title").inner_text() == title
    assert opened.page.locator("#shares-title").inner_text() == "Steps that looked most at it"


def test_the_pieces_that_were_looked_at_most_come_first(opened: Opened, explained: dict[str, Any]) -> None:
    opened.piece("target", 3).click()
    shares = mean(explained, "cross", 2)
    ranked = sorted(range(len(shares)), key=lambda at: -shares[at])[:5]
    listed = rows(opened, "#shares li")
    assert [label for label, *_ in listed] == [visible(explained["source"][at]) for at in ranked]
    for (*_, written), at in zip(listed, ranked, strict=True):
        assert_percent(written, shares[at])


def test_a_lit_piece_tells_how_much_it_was_looked_at(opened: Opened, explained: dict[str, Any]) -> None:
    opened.piece("target", 3).click()
    written = opened.page.locator("#source .piece small").all_inner_texts()
    for share, each in zip(mean(explained, "cross", 2), written, strict=True):
        if share >= 0.005:
            assert_percent(each, share)
        else:
            assert each == ""


def test_the_likeliest_piece_that_could_have_stood_there_comes_first(opened: Opened, explained: dict[str, Any]) -> None:
    opened.piece("target", 3).click()
    step = explained["steps"][2]
    choices = [(explained["target"][3], step["probability"]), *step["next_best"]]
    choices.sort(key=lambda choice: -choice[1])
    listed = rows(opened, "#choices li")
    assert [label for label, *_ in listed] == [piece for piece, _ in choices]
    for (*_, written), (_, share) in zip(listed, choices, strict=True):
        assert_percent(written, share)
    assert opened.page.locator("#choices .chosen bdi").inner_text() == explained["target"][3]


def test_each_sentence_says_its_language_to_a_screen_reader(opened: Opened) -> None:
    for side, language in (("source", "de"), ("target", "en")):
        for place in (side, f"{side}-words", f"{side}-text"):
            assert opened.page.locator(f"#{place}").get_attribute("lang") == language, place


def less_likely(explained: dict[str, Any], **others: Any) -> dict[str, Any]:
    """The third step has chosen a piece of 20 %, though "zzz" had 90 %."""
    steps = [dict(step) for step in explained["steps"]]
    steps[2] |= {"probability": 0.2, "next_best": [("▁zzz", 0.9), *steps[2]["next_best"][1:]]}
    return explained | {"steps": steps} | others


@pytest.mark.parametrize(
    ("method", "forced", "reason"),
    [
        ("greedy", 0, "“zzz” was likelier."),
        ("sampling", 0, "“zzz” was likelier, but sampling draws by chance"),
        ("beam", 3, "You put “{chosen}” here; by itself the model would rather have written “zzz”."),
        ("beam", 2, "“zzz” was likelier here (90%, not 20%), but beam search compares whole translations: those that"),
    ],
)
def test_a_step_says_why_it_did_not_take_the_likeliest_piece(
    show: Show, explained: dict[str, Any], method: str, forced: int, reason: str
) -> None:
    opened = show(less_likely(explained, search=explained["search"] | {"method": method}, forced=forced))
    opened.piece("target", 3).click()
    expected = reason.replace("{chosen}", visible(explained["target"][3]))
    assert opened.page.locator("#why").inner_text().startswith(expected)
    opened.piece("target", 4).click()
    assert "zzz" not in opened.page.locator("#why").inner_text()


def test_the_rival_of_a_beam_begins_with_what_stands_before_the_step(show: Show, explained: dict[str, Any]) -> None:
    best, *others = explained["hypotheses"]
    rivals = [
        others[0] | {"text": name, "pieces": [*pieces, "</s>"], "score": score}
        for name, score, pieces in (
            ("elsewhere", -7.0, ["▁zzz", *best["pieces"][1:2], "▁zzz"]),
            ("the rival", -8.0, [*best["pieces"][:2], "▁zzz"]),
        )
    ]
    opened = show(less_likely(explained, hypotheses=[best, *rivals]))
    opened.piece("target", 3).click()
    reason = opened.page.locator("#why").inner_text()
    assert f"“the rival”, scores -8.000; this one scores {best['score']:.3f}" in reason


@pytest.fixture
def stepwise(show: Show, explained: dict[str, Any]) -> Opened:
    """Each step is sure of its piece."""
    steps = [step | {"next_best": [(piece, 0.0) for piece, _ in step["next_best"]]} for step in explained["steps"]]
    opened = show(explained | {"steps": steps})
    opened.page.locator("#tab-stepwise").click()
    return opened


@pytest.mark.long
def test_the_buttons_of_the_steps_go_on_and_back_and_to_the_first(stepwise: Opened, explained: dict[str, Any]) -> None:
    count = len(explained["steps"])

    def after(*buttons: str) -> tuple[str, list[str]]:
        for button in buttons:
            stepwise.page.locator(f"#step-{button}").click()
        disabled = stepwise.page.locator(".stepper button:disabled").evaluate_all("all => all.map(one => one.id)")
        return stepwise.page.locator("#step-count").inner_text(), disabled

    assert after() == (f"step 1 of {count}", ["step-first", "step-back"])
    assert after("next", "next", "back") == (f"step 2 of {count}", [])
    assert after("next", "first") == (f"step 1 of {count}", ["step-first", "step-back"])
    assert after(*["next"] * (count - 1)) == (f"step {count} of {count}", ["step-next"])


def test_a_step_lists_and_takes_its_own_piece(stepwise: Opened, explained: dict[str, Any]) -> None:
    for _ in range(2):
        stepwise.page.locator("#step-next").click()
    words, share = stepwise.page.locator("#step-why").inner_text().removesuffix(").").split(" (")
    assert words == f"It takes “{visible(explained['target'][3])}”"
    assert_percent(share, explained["steps"][2]["probability"])
    pieces = [explained["target"][3], *(piece for piece, _ in explained["steps"][2]["next_best"])]
    assert [label for label, *_ in rows(stepwise, "#step-choices li")] == pieces


def test_a_step_lists_what_each_decoder_layer_would_write(stepwise: Opened, explained: dict[str, Any]) -> None:
    stepwise.page.locator("#step-next").click()
    step, written = explained["steps"][1], explained["target"][2]
    lines = rows(stepwise, "#step-layers li")
    assert [line[:2] for line in lines] == [
        [f"layer {layer}", piece] for layer, (piece, _) in enumerate(step["layers"], 1)
    ]
    for (*_, share), (_, expected) in zip(lines, step["layers"], strict=True):
        assert_percent(share, expected)
    chosen = stepwise.page.locator("#step-layers .chosen").count()
    assert chosen == [piece for piece, _ in step["layers"]].count(written)


def test_a_row_of_the_mask_has_the_percent_of_its_step(stepwise: Opened, explained: dict[str, Any]) -> None:
    for _ in range(2):
        stepwise.page.locator("#step-next").click()
    lines = rows(stepwise, "#mask tbody tr")
    assert [line[0] for line in lines] == [visible(piece) for piece in explained["target"][1:]]
    shares = mean(explained, "decoder", 2)
    written = [int(cell) for cell in lines[2][1 : 1 + len(shares)]]
    assert written == pytest.approx([100 * share for share in shares], abs=0.51)
    assert not any("".join(line[1:]) for line in lines[3:]), "a step that is not reached has no numbers"


def test_a_hypothesis_stands_beside_its_own_numbers(opened: Opened, explained: dict[str, Any]) -> None:
    opened.page.locator("#tab-search").click()
    expected = [
        [str(at), one["text"], f"{one['log_probability']:.3f}", str(one["length"]), f"{one['score']:.4f}"]
        for at, one in enumerate(explained["hypotheses"], 1)
    ]
    assert rows(opened, "#hypotheses tbody tr") == expected


def test_a_step_of_the_search_stands_beside_its_probability(opened: Opened, explained: dict[str, Any]) -> None:
    opened.page.locator("#tab-search").click()
    for at, (number, piece, share, _) in enumerate(rows(opened, "#steps tbody tr")):
        assert (number, piece) == (str(at + 1), explained["target"][at + 1])
        assert_percent(share, explained["steps"][at]["probability"])


@pytest.mark.parametrize(
    ("method", "beginning", "penalty"),
    [("greedy", "Greedy search", []), ("sampling", "Sampling", []), ("beam", "Beam search", ["0.6"])],
)
def test_the_search_says_what_it_did_and_how_it_scores(
    show: Show, explained: dict[str, Any], method: str, beginning: str, penalty: list[str]
) -> None:
    opened = show(explained | {"search": {"method": method, "beam": 4, "length_penalty": 0.6}})
    opened.page.locator("#tab-search").click()
    assert opened.page.locator("#scoring").inner_text().startswith(beginning)
    assert opened.page.locator("#scoring sup").all_inner_texts() == penalty


def test_one_hypothesis_is_not_drawn_as_a_tree(show: Show, explained: dict[str, Any]) -> None:
    opened = show(explained | {"hypotheses": explained["hypotheses"][:1]})
    opened.page.locator("#tab-search").click()
    assert opened.page.locator("#hypotheses").is_visible()
    assert not opened.page.locator("#tree-part").is_visible()


def candidate(origin: int, piece: str, place: int | None = None, hypothesis: int | None = None) -> dict[str, Any]:
    return {
        "origin": origin,
        "id": 4,
        "piece": piece,
        "place": place,
        "hypothesis": hypothesis,
        "score": -1,
        "total": -2,
    }


@pytest.fixture
def tree(show: Show, explained: dict[str, Any]) -> Opened:
    """A beam of two that dropped an end between its places."""
    best = explained["hypotheses"][0] | {"pieces": ["▁b", "</s>"]}
    steps = [
        [candidate(0, "▁a", place=0), candidate(0, "</s>"), candidate(0, "▁b", place=1)],
        [candidate(1, "▁c", place=0), candidate(0, "▁d", place=1), candidate(1, "</s>", hypothesis=0)],
    ]
    beam = [{"position": position, "candidates": candidates} for position, candidates in enumerate(steps)]
    opened = show(explained | {"hypotheses": [best], "tree": beam})
    opened.page.locator("#tab-search").click()
    return opened


def test_a_line_of_the_tree_starts_at_what_a_candidate_goes_on_from(tree: Opened) -> None:
    boxes, starts = tree.page.evaluate(
        """() => [
          [...document.querySelectorAll(".column")].map(column => [...column.children].map(
            node => [node.offsetLeft + node.offsetWidth, node.offsetTop + node.offsetHeight / 2])),
          [...document.querySelectorAll("#lines path")].map(
            line => line.getAttribute("d").slice(1).split(" C")[0].split(" ").map(Number)),
        ]"""
    )
    assert starts == [boxes[0][0]] * 3 + [boxes[1][at] for at in (2, 0, 2)]


def test_the_tree_marks_what_won_and_what_was_dropped(tree: Opened) -> None:
    states = tree.page.locator("#columns .node").evaluate_all("all => all.map(node => node.classList[1])")
    assert states == ["best", "kept", "dropped", "best", "kept", "kept", "best"]
