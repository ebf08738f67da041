"""The page that explains a translation: it shows the model's own numbers, and a browser shows the page."""

import json
import re
from collections.abc import Iterator
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.browsers import Chromium
from tests.scripts.running import script
from tests.tools.page.models import SEARCH, TEXTS, untrained
from tests.tools.page.opened import Opened
from transformer import Translator
from transformer.inference.alignment_head import AlignmentHead
from transformer.inference.settings import Defaults
from transformer.tools.page.explanation import explain, page
from transformer.tools.page.html import FOLDER, LANGUAGES
from transformer.tools.pictures.attention_maps import read

HOSTILE = 'Hund </script><script>document.title="taken"</script> <b>&amp; <!-- \u2028 ein Haus {{data}}'


@pytest.fixture(scope="module")
def explained(translator: Translator) -> dict[str, Any]:
    return explain(translator, TEXTS[1], SEARCH)


def data_of(html: str) -> dict[str, Any]:
    [data] = re.findall(r'<script type="application/json" id="explanation">(.*?)</script>', html, re.DOTALL)
    return json.loads(data)


def ids_of(translator: Translator, pieces: list[str]) -> list[int]:
    every = [translator.target_tokenizer.piece(id) for id in range(len(translator.target_tokenizer))]
    return [every.index(piece) for piece in pieces]


def test_the_weights_in_the_page_are_those_of_a_reading_of_the_best_translation(translator: Translator) -> None:
    data = data_of(page(explain(translator, TEXTS[1], SEARCH)))
    reading = read(translator, TEXTS[1], ids_of(translator, data["target"][1:-1]))
    assert (data["source"], data["target"]) == (reading.source, [*reading.target, "</s>"])
    sizes = {name: (len(layers), len(layers[0])) for name, layers in data["attention"].items()}
    assert sizes == {"encoder": (2, 3), "decoder": (3, 3), "cross": (3, 2)}
    for name, layers in reading.record._asdict().items():
        for weights, heads in zip(layers, data["attention"][name], strict=True):
            for head, rows in zip(weights[0], heads, strict=True):
                # What a step could not see is left out.
                whole = torch.tensor([row + [0] * (head.size(1) - len(row)) for row in rows]) / 1000
                assert torch.allclose(whole, head, atol=5.1e-4)
    assert [len(row) for row in data["attention"]["decoder"][0][0]] == list(range(1, len(reading.target) + 1))


def test_the_steps_probabilities_give_the_score_of_the_search(
    translator: Translator, explained: dict[str, Any]
) -> None:
    best = translator.n_best([TEXTS[1]], SEARCH)[0]
    assert [h["text"] for h in explained["hypotheses"]] == [h.text for h in best]
    assert [h["score"] for h in explained["hypotheses"]] == pytest.approx([h.score for h in best], abs=1e-3)
    for shown, found in zip(explained["hypotheses"], best, strict=True):
        assert shown["pieces"] == [*found.pieces, "</s>"]
        assert shown["log_probability"] == pytest.approx(found.log_probability, abs=1e-3)
        # As the page tells it: with the end symbol counted.
        assert shown["score"] == pytest.approx(shown["log_probability"] / shown["length"], abs=1e-3)
    assert explained["target"] == ["<s>", *best[0].pieces, "</s>"]
    probabilities = torch.tensor([step["probability"] for step in explained["steps"]])
    assert len(probabilities) == len(best[0].pieces) + 1
    assert probabilities.log().sum().item() == pytest.approx(best[0].log_probability, rel=1e-2)


def test_next_best_are_the_likeliest_pieces_but_for_the_chosen_one(
    translator: Translator, explained: dict[str, Any]
) -> None:
    source, target = (ids_of(translator, explained[side]) for side in ("source", "target"))
    shares = translator.model(torch.tensor([source]), torch.tensor([target[:-1]]))[0].softmax(dim=-1).detach()
    for row, chosen, step in zip(shares, target[1:], explained["steps"], strict=True):
        assert step["probability"] == pytest.approx(row[chosen].item(), abs=1e-5)
        likeliest = row.index_fill(0, torch.tensor(chosen), 0).topk(5)
        assert ids_of(translator, [piece for piece, _ in step["next_best"]]) == likeliest.indices.tolist()
        assert [share for _, share in step["next_best"]] == pytest.approx(likeliest.values.tolist(), abs=1e-5)


def test_each_layer_would_write_what_the_model_without_the_later_ones_writes(
    translator: Translator, explained: dict[str, Any]
) -> None:
    source, target = (torch.tensor([ids_of(translator, explained[side])]) for side in ("source", "target"))
    shorter = deepcopy(translator.model)
    for layer in reversed(range(len(shorter.decoder.layers))):
        shares, ids = shorter(source, target[:, :-1])[0].softmax(dim=-1).detach().max(dim=-1)
        found = [step["layers"][layer] for step in explained["steps"]]
        assert ids_of(translator, [piece for piece, _ in found]) == ids.tolist()
        assert [share for _, share in found] == pytest.approx(shares.tolist(), abs=1e-5)
        shorter.decoder.layers = shorter.decoder.layers[:layer]


def test_the_facts_in_the_page_are_those_of_the_model_and_of_its_search(translator: Translator) -> None:
    other = copy(translator)
    other.defaults, other.alignment = Defaults(length_penalty=1.5), AlignmentHead(2, 1, shifted=True)
    explained = explain(other, TEXTS[0], SEARCH, "my model")
    assert explained["languages"] == ["de", "en"]
    size = sum(weight.numel() for weight in translator.model.parameters())
    model = {"name": "my model", "parameters": size, "dim": 24, "encoder_layers": 2, "decoder_layers": 3}
    assert explained["model"] == model
    assert explained["search"] == {"method": "beam", "beam": SEARCH.beam, "length_penalty": 1.5}
    assert explained["alignment"] == {"layer": 2, "head": 1, "shifted": True}


def test_a_model_in_training_is_explained_without_dropout(translator: Translator) -> None:
    for module in translator.model.modules():
        if hasattr(module, "p"):
            module.p = 0.5
    calm = explain(translator, TEXTS[0], SEARCH)
    translator.model.train()
    assert explain(translator, TEXTS[0], SEARCH) == calm
    assert translator.model.training
    translator.model.eval()


def test_text_in_the_page_stays_text_and_the_page_needs_no_network(translator: Translator) -> None:
    html = page(explain(translator, HOSTILE, SEARCH))
    template = page({})
    assert html.count("<script") == template.count("<script")
    assert html.count("<!--") == template.count("<!--")
    assert data_of(html)["text"] == HOSTILE
    assert not re.search(r"https?:|//\w+\.\w|\bsrc\s*=|\bhref\s*=|@import|\burl\(|\bfetch\(|\bimport\b", html)
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


@pytest.mark.parametrize(("text", "tokens"), [("", "0"), ("   ", "0"), ("ja " * 100, r"\d+")])
def test_an_empty_and_an_over_long_text_are_refused_with_the_limit(
    translator: Translator, text: str, tokens: str
) -> None:
    with pytest.raises(ValueError, match=rf"^the text has {tokens} tokens; between 1 and 79 can be shown$"):
        explain(translator, text)


def test_several_sentences_are_said_without_a_setting_that_pages_do_not_have(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    explain(translator, "ja. Wir gehen in den Park.", SEARCH)
    [said] = [message for message in caplog.messages if "sentences" in message]
    assert said.startswith("the text has 2 sentences, translated as one")
    assert "=" not in said
    caplog.clear()
    explain(translator, "ja.", SEARCH)
    assert not [message for message in caplog.messages if "sentences" in message]


def test_the_script_writes_the_page_and_prints_where_it_is(translator: Translator, tmp_path: Path) -> None:
    translator.save(tmp_path / "t.safetensors")
    flags = ("--checkpoint", "t.safetensors", "--output", "new/seite=1 ä.html", "--beam", "1")
    done = script("explain", HOSTILE, *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "new" / "seite=1 ä.html"
    assert done.stdout == f"{path}\n"
    assert list(path.parent.iterdir()) == [path]
    assert data_of(path.read_text(encoding="utf-8"))["text"] == HOSTILE


def test_the_script_refuses_in_one_line_and_leaves_no_page(translator: Translator, tmp_path: Path) -> None:
    translator.save(tmp_path / "t.safetensors")
    done = script("explain", "", "--checkpoint", "t.safetensors", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == ["error: the text has 0 tokens; between 1 and 79 can be shown"]
    assert [path.name for path in tmp_path.iterdir()] == ["t.safetensors"]


def test_the_texts_of_both_languages_have_the_same_keys_and_gaps() -> None:
    english, chinese = (json.loads((FOLDER / f"texts/{name}.json").read_text(encoding="utf-8")) for name in LANGUAGES)
    gaps = [
        {key: sorted(re.findall(r"\{\w+\}|`[^`]+`", words)) for key, words in table.items()}
        for table in (english, chinese)
    ]
    assert gaps[0] == gaps[1]


def test_every_text_that_the_page_asks_for_is_in_the_tables() -> None:
    table = json.loads((FOLDER / "texts/en.json").read_text(encoding="utf-8"))
    scripts = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("view/*.js"))
    html = (FOLDER / "page.html").read_text(encoding="utf-8")
    asked = re.findall(r'\b(?:text|rich)\("([^"]+)"', scripts) + re.findall(r'data-(?:text|label)="([^"]+)"', html)
    assert set(asked) <= set(table)
    beginnings = tuple(re.findall(r"`([a-z]+ )\$\{", scripts))
    assert not {key for key in table if f'"{key}"' not in scripts + html and not key.startswith(beginnings)}


# From here on in a browser.


@pytest.fixture(scope="module")
def path(explained: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explain") / "page.html"
    path.write_text(page(explained), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Chromium, path: Path) -> Iterator[Opened]:
    opened = Opened(browser, path, viewport={"width": 1100, "height": 900})
    yield opened
    assert opened.errors == []
    assert opened.requests == [path.as_uri()]
    opened.close()


def mean(explained: dict[str, Any], attention: str, query: int) -> list[float]:
    layers = explained["attention"][attention]
    return torch.tensor([head[query] for layer in layers for head in layer]).float().mean(0).div(1000).tolist()


def test_pointing_at_a_piece_lights_up_what_its_step_attended_to(opened: Opened, explained: dict[str, Any]) -> None:
    opened.piece("target", 3).hover()
    # The third piece after <s> was produced by row 2.
    assert opened.shares("source") == pytest.approx(mean(explained, "cross", 2), abs=1e-6)
    assert set(opened.shares("target")) == {0}
    colors = {opened.piece("source", i).evaluate("e => getComputedStyle(e).backgroundColor") for i in (0, 1, 2)}
    assert len(colors) > 1
    opened.page.mouse.move(1, 1)
    assert opened.current() == "target1"  # back to what is held


@pytest.mark.long
def test_a_click_holds_a_piece_and_layer_head_and_attention_can_be_chosen(
    opened: Opened, explained: dict[str, Any]
) -> None:
    opened.piece("target", 2).click()
    opened.page.mouse.move(1, 1)
    assert opened.current() == "target2"
    opened.choose("layer", "2")
    opened.choose("head", "1")
    one = [weight / 1000 for weight in explained["attention"]["cross"][2][1][1]]
    assert opened.shares("source") == pytest.approx(one, abs=1e-6)
    opened.choose("attention", "decoder")
    assert opened.page.locator("#head input").count() == 1 + 3
    row = [weight / 1000 for weight in explained["attention"]["decoder"][2][1][1]]
    assert len(row) == 2
    assert opened.shares("target")[:3] == pytest.approx([*row, 0], abs=1e-6)
    opened.choose("head", "mean")
    row = torch.tensor([head[1] for head in explained["attention"]["decoder"][2]]).float().mean(0).div(1000).tolist()
    assert opened.shares("target")[:3] == pytest.approx([*row, 0], abs=1e-6)
    opened.choose("attention", "encoder")  # has two layers only: back to the mean
    assert opened.current() == "source0"
    opened.piece("source", 4).click()
    assert opened.shares("source") == pytest.approx(mean(explained, "encoder", 4), abs=1e-6)
    assert opened.piece("target", 2).is_disabled()


def test_heads_are_not_averaged_over_layers_and_stand_side_by_side_as_matrices(
    opened: Opened, explained: dict[str, Any]
) -> None:
    values = "all => all.map(input => input.value)"
    assert opened.page.locator("#head input").evaluate_all(values) == ["mean"]
    opened.choose("layer", "1")
    assert opened.page.locator("#head input").evaluate_all(values) == ["mean", "0", "1"]
    alphas = """canvas => [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data]
      .filter((_, at) => at % 4 === 3).map(alpha => (alpha / 255) ** 2)"""
    drawn = opened.page.locator("#head canvas").nth(2).evaluate(alphas)
    weights = [weight / 1000 for row in explained["attention"]["cross"][1][1] for weight in row]
    assert drawn == pytest.approx(weights, abs=0.01)


def test_a_piece_of_the_source_shows_which_steps_looked_at_it(opened: Opened, explained: dict[str, Any]) -> None:
    opened.piece("source", 1).click()
    steps = range(len(explained["steps"]))
    expected = [0, *(mean(explained, "cross", step)[1] for step in steps)]
    assert opened.shares("target") == pytest.approx(expected, abs=1e-6)


def test_the_keyboard_reaches_everything(opened: Opened) -> None:
    for name in ("language", "panel", "attention"):
        opened.page.keyboard.press("Tab")
        assert opened.page.evaluate("document.activeElement.name || 'panel'") == name
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("ArrowLeft")
    opened.page.keyboard.press("Tab")
    opened.page.keyboard.press("ArrowRight")  # layer 1
    opened.page.keyboard.press("Tab")
    assert opened.current() == "source0"
    opened.page.keyboard.press("Tab")
    assert opened.current() == "target1"
    opened.page.keyboard.press("ArrowRight")
    assert opened.current() == "target2"
    focused = "getComputedStyle(document.activeElement)"
    assert opened.page.evaluate(f"{focused}.outlineStyle + {focused}.outlineWidth") == "solid3px"
    assert opened.page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    opened.page.keyboard.press("End")
    assert opened.page.evaluate("document.activeElement.querySelector('.read').textContent") == "end symbol"
    opened.page.keyboard.press("Tab")
    opened.page.keyboard.press("ArrowRight")  # head 1
    assert opened.page.locator("#layer input[value='0'], #head input[value='0']").evaluate_all(
        "all => all.every(input => input.checked)"
    )


def test_every_step_and_hypothesis_is_listed(opened: Opened, explained: dict[str, Any]) -> None:
    opened.page.locator("#tab-search").click()
    rows = opened.page.locator("#steps tbody tr")
    assert rows.count() == len(explained["steps"])
    for at, step in enumerate(explained["steps"]):
        text = rows.nth(at).inner_text()
        assert all(piece in text for piece in [explained["target"][at + 1], *(piece for piece, _ in step["next_best"])])
        assert rows.nth(at).locator(".token").count() == 5
    shown = opened.page.locator("#hypotheses tbody tr").all_inner_texts()
    assert len(shown) == SEARCH.beam
    for line, hypothesis in zip(shown, explained["hypotheses"], strict=True):
        assert hypothesis["text"] in line
        assert f"{hypothesis['score']:.4f}" in line


@pytest.mark.long
def test_a_phone_shows_the_page_without_sideways_scrolling_and_a_tap_holds(
    browser: Chromium, path: Path, explained: dict[str, Any]
) -> None:
    phone = Opened(browser, path, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    assert phone.page.evaluate("document.documentElement.scrollWidth") <= 360
    phone.piece("target", 4).tap()
    assert phone.current() == "target4"
    assert phone.shares("source") == pytest.approx(mean(explained, "cross", 3), abs=1e-6)
    sizes = phone.page.locator(".piece").evaluate_all("all => all.map(e => [e.offsetWidth, e.offsetHeight])")
    assert min(size for pair in sizes for size in pair) >= 40
    phone.close()


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const light = (...colors) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const color of colors) { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); }
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map(
      part => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const style = element => getComputedStyle(element);
  const card = style(document.querySelector("section")).backgroundColor;
  const contrasts = [...document.querySelectorAll("#source .piece > *, #target .piece.current > *")].map(text => {
    text.parentElement.style.setProperty("--share", 1);
    const pair = [light(card, style(text.parentElement).backgroundColor), light(style(text).color)];
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  });
  return [light(card), Math.min(...contrasts)];
}"""


@pytest.mark.long
def test_light_and_dark_follow_the_system_and_a_lit_piece_stays_readable(browser: Chromium, path: Path) -> None:
    paper = {}
    for scheme in ("light", "dark"):
        opened = Opened(browser, path, color_scheme=scheme)
        paper[scheme], contrast = opened.page.evaluate(CONTRAST)
        assert contrast >= 4.5, scheme  # WCAG 2.2, level AA
        picture = opened.page.screenshot(full_page=True)
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 10_000
        opened.close()
    assert paper["dark"] < 0.1 < 0.9 < paper["light"]


def test_markup_in_a_sentence_is_shown_not_run(browser: Chromium, translator: Translator, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(page(explain(translator, HOSTILE, SEARCH)), encoding="utf-8")
    opened = Opened(browser, path)
    assert opened.errors == []
    assert opened.page.title().startswith("Hund </script><script>")
    assert "<script>" in opened.page.locator("#source-text").inner_text()
    assert opened.page.locator("main script, main b b").count() == 0
    opened.close()


def test_the_page_of_a_model_without_cross_attention_shows_the_other_two(
    browser: Chromium, without_cross: Translator, tmp_path: Path
) -> None:
    explained = explain(without_cross, TEXTS[1], SEARCH)
    assert explained["attention"]["cross"] == []
    path = tmp_path / "page.html"
    path.write_text(page(explained), encoding="utf-8")
    opened = Opened(browser, path)
    assert opened.page.locator("#attention input").evaluate_all("all => all.map(input => input.value)") == [
        "decoder", "encoder"
    ]  # fmt: skip
    opened.piece("target", 3).click()
    assert opened.shares("target")[:3] == pytest.approx(mean(explained, "decoder", 2), abs=1e-6)
    opened.choose("attention", "encoder")
    assert opened.shares("source") == pytest.approx(mean(explained, "encoder", 0), abs=1e-6)
    assert opened.errors == []
    opened.close()


def test_the_mark_that_joins_pieces_of_a_word_tokenizer_is_not_shown(browser: Chromium, tmp_path: Path) -> None:
    path = tmp_path / "words.html"
    path.write_text(
        page(explain(untrained(["ein Haus, ein Hund."], "word"), "ein Haus, Hund.", SEARCH)), encoding="utf-8"
    )
    opened = Opened(browser, path)
    words = opened.page.locator("#source .word").evaluate_all(
        "all => all.map(word => [...word.querySelectorAll('.piece > b')].map(piece => piece.textContent))"
    )
    assert words == [["ein"], ["Haus", ","], ["Hund", "."], ["</s>"]]
    opened.close()


@pytest.mark.long
def test_the_page_speaks_the_language_of_the_browser_and_another_by_choice(browser: Chromium, path: Path) -> None:
    opened = Opened(browser, path, locale="zh-CN")
    assert opened.page.locator("#tab-attention").inner_text() == "注意力"
    opened.choose("language", "en")
    assert opened.page.locator("#tab-attention").inner_text() == "Attention"
    assert opened.page.evaluate("document.documentElement.lang") == "en"
    assert opened.errors == []
    opened.close()


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (360, 740)])
def test_what_a_step_looked_at_is_in_view_beside_the_sentences(
    browser: Chromium, path: Path, width: int, height: int
) -> None:
    opened = Opened(browser, path, viewport={"width": width, "height": height})
    opened.piece("target", 2).scroll_into_view_if_needed()
    opened.piece("target", 2).click()
    for name in ("shares", "choices"):
        box = opened.page.locator(f"#{name} li").first.bounding_box()
        assert 0 <= box["y"] <= height - box["height"], name
    opened.close()


def test_a_beam_that_took_a_less_likely_piece_says_which_rival_lost(
    browser: Chromium, path: Path, explained: dict[str, Any], tmp_path: Path
) -> None:
    rival, best = explained["hypotheses"][1], explained["hypotheses"][0]
    step = next(at for at, pair in enumerate(zip(best["pieces"], rival["pieces"], strict=False)) if len(set(pair)) == 2)
    steps = [dict(step) for step in explained["steps"]]
    steps[step]["next_best"] = [(rival["pieces"][step], 0.9), *steps[step]["next_best"][1:]]
    changed = tmp_path / "page.html"
    changed.write_text(page(explained | {"steps": steps}), encoding="utf-8")
    opened = Opened(browser, changed)
    opened.piece("target", step + 1).click()
    reason = opened.page.locator("#why").inner_text()
    assert rival["text"] in reason
    assert f"{rival['score']:.3f}" in reason
    assert f"{best['score']:.3f}" in reason
    opened.close()


def test_one_step_at_a_time_shows_what_the_causal_mask_hides(opened: Opened, explained: dict[str, Any]) -> None:
    opened.page.locator("#tab-stepwise").click()
    for _ in range(2):
        opened.page.locator("#step-next").click()
    count = len(explained["steps"])
    row = opened.page.locator("#mask tbody tr").nth(2)
    assert row.get_attribute("class").strip() == "current"
    assert row.locator("td.masked").count() == count - 3
    assert opened.page.locator("#so-far span").count() == 3 + 1
    assert opened.page.locator("#mask tbody tr.later").count() == count - 3


def test_the_search_is_a_tree_of_its_hypotheses_that_grows(opened: Opened, explained: dict[str, Any]) -> None:
    opened.page.locator("#tab-search").click()
    prefixes = {tuple(h["pieces"][:end]) for h in explained["hypotheses"] for end in range(len(h["pieces"]) + 1)}
    assert opened.page.locator("#columns .node").count() == len(prefixes)
    best = opened.page.locator("#columns .node.best b").all_inner_texts()
    assert len(best) == len(explained["target"])
    opened.page.locator("#grown").fill("1")
    assert opened.page.locator("#columns .node").count() == len({prefix for prefix in prefixes if len(prefix) < 2})
