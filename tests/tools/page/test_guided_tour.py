"""The guided tour of the page: the numbers of its stations are those that Python finds for the typed sentence."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.browsers import Chromium, Firefox
from tests.tools.page.models import TEXTS, untrained
from tests.tools.page.opened import Opened, without_errors
from transformer import Translator
from transformer.data.tokenizer import EOS
from transformer.inference.translator import BEAM
from transformer.model.positions import sinusoidal_table
from transformer.tools.page.explanation import explain
from transformer.tools.page.export import build, rounded

STATIONS = ("pieces", "vectors", "encoder", "decoder", "cross", "probabilities", "search")
GREEDY = replace(BEAM, method="greedy")


@pytest.fixture(scope="module")
def live_path(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(build(translator, "int8", TEXTS[1]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def expected(translator: Translator) -> dict[str, Any]:
    return explain(rounded(translator, "int8"), TEXTS[1], GREEDY)


def percent(share: float) -> str:
    """As view/dom.js writes it."""
    return (
        f"{math.floor(share * 100 + 0.5)}%" if share >= 0.0995 else f"{share * 100:.1f}%" if share >= 5e-4 else "<0.1%"
    )


def at_station(live: Opened, name: str) -> str:
    """The numbers of a station, once they are there."""
    if live.page.locator("#tour-start").is_visible():
        live.page.locator("#tour-start").click()
    live.choose("stations", name)
    live.page.wait_for_function("() => document.querySelector('#station-numbers').textContent")
    return live.page.locator("#station-numbers").inner_text()


def percents(text: str) -> list[str]:
    return re.findall(r"<?[\d.]+%", text)


def test_pieces_have_the_ids_of_the_tokenizer(live: Opened, translator: Translator) -> None:
    ids = [int(one) for one in re.findall(r"” (\d+)", at_station(live, "pieces"))]
    assert ids == [*translator.source_tokenizer.encode(TEXTS[1]), EOS]


def test_positions_are_those_of_the_table_at_position_1(live: Opened, translator: Translator) -> None:
    numbers = at_station(live, "vectors")
    found = {
        int(i): float(value.replace("−", "-")) for i, value in re.findall(r"PE\(1, (\d)\) .*? = ([−\d.]+)", numbers)
    }
    assert found == {
        i: pytest.approx(sinusoidal_table(2, translator.model.config.dim)[1, i].item(), abs=6e-4) for i in range(3)
    }
    # The same number in the picture below.
    figure = live.page.locator("#stages figure", has_text="PE").locator("output")
    live.page.locator("#stages figure", has_text="PE").locator(".numbers").press("ArrowDown")
    assert figure.inner_text().startswith(f"PE [1, 0] = {found[0]:.3f}")


def test_a_score_of_the_encoder_becomes_the_share_that_attention_has(
    live: Opened, translator: Translator, expected: dict[str, Any]
) -> None:
    numbers = at_station(live, "encoder").replace("−", "-")
    product, width, scaled = (
        float(re.search(pattern, numbers)[1]) for pattern in (r"q · k = ([-\d.]+)", r"√([\d.]+)", r"√\S+ = ([-\d.]+)")
    )  # type: ignore[index]
    config = translator.model.config
    assert width == config.encoder.self_attention.head_dims(config.dim)[0]
    assert scaled == pytest.approx(product / math.sqrt(width), abs=2e-3)
    row = expected["attention"]["encoder"][0][0][1]
    [share] = percents(numbers)
    assert float(share.rstrip("%")) == pytest.approx(max(row) / 10, abs=1)


def test_a_step_sees_what_is_written_with_shares_that_add_up_to_one(live: Opened, expected: dict[str, Any]) -> None:
    numbers = at_station(live, "decoder")
    heads = [head for layer in expected["attention"]["decoder"] for head in layer]
    means = [sum(head[2][key] for head in heads) / len(heads) / 10 for key in range(3)]
    found = [float(share.strip("<%")) for share in percents(numbers)[:3]]
    assert found == pytest.approx(means, abs=0.6)
    assert sum(found) == pytest.approx(100, abs=2)
    assert f"; {len(expected['steps']) - 3} " in numbers


def test_the_words_of_cross_attention_are_those_that_the_lines_below_join(live: Opened) -> None:
    pairs = re.findall(r"“(.*?)” ← “(.*?)”", at_station(live, "cross"))
    joined = live.page.evaluate(
        """() => {
          const list = selector => [...document.querySelectorAll(selector)];
          const words = side => list(`#${side}-words > span`).map(word => word.firstChild.textContent);
          const [source, target] = [words("source"), words("target")];
          return list("#links line").map(line => line.dataset.link.split("-").map(Number))
            .map(([from, to]) => [target[to], source[from]]);
        }"""
    )
    assert [list(pair) for pair in pairs] == joined


def test_the_likeliest_pieces_of_a_step_are_those_of_the_model(live: Opened, expected: dict[str, Any]) -> None:
    numbers = at_station(live, "probabilities")
    step = expected["steps"][1]
    likeliest = sorted([step["probability"], *(share for _, share in step["next_best"])], reverse=True)[:3]
    assert percents(numbers) == [percent(share) for share in likeliest]


def test_the_score_of_the_search_is_the_log_probability_by_the_length(live: Opened, expected: dict[str, Any]) -> None:
    best = expected["hypotheses"][0]
    found = re.fullmatch(r"score = (\S+) / (\d+)\^(\S+) = (\S+)", at_station(live, "search").replace("−", "-"))
    assert found
    log_probability, length, penalty, score = map(float, found.groups())
    assert (log_probability, length) == (pytest.approx(best["log_probability"], abs=2e-3), best["length"])
    assert score == pytest.approx(log_probability / length**penalty, abs=2e-3)


def test_each_station_shows_its_place_and_has_a_panel(live: Opened) -> None:
    panels = {"vectors": "arithmetic", "decoder": "stepwise", "probabilities": "stepwise", "search": "search"}
    for name in STATIONS:
        at_station(live, name)
        here = live.page.locator("#map .here")
        assert here.evaluate_all("groups => groups.map(group => group.dataset.station)") == [name]
        assert live.page.locator(f"#panel-{panels.get(name, 'attention')}").is_visible()


def test_the_keyboard_goes_through_the_tour(live: Opened) -> None:
    live.page.locator("#tour-start").focus()
    live.page.keyboard.press("Enter")
    focus = "() => document.activeElement.id"
    for number in range(2, len(STATIONS) + 1):
        live.page.locator("#station-next").focus()
        live.page.keyboard.press("Enter")
        assert live.page.evaluate(focus) == "station-title"
        assert live.page.locator("#station-title").inner_text().startswith(str(number))
    assert live.page.locator("#station-next").is_disabled()
    live.page.locator("#tour-end").focus()
    live.page.keyboard.press("Enter")
    assert live.page.evaluate(focus) == "tour-start"
    assert not live.page.locator("#tour").is_visible()


def test_a_station_leads_to_what_if_without_its_part(live: Opened) -> None:
    at_station(live, "decoder")
    live.page.locator("#station-without").click()
    live.page.wait_for_function("() => document.querySelector('#after-text').textContent")
    switched = "switches => switches.filter(one => one.querySelector('input').checked).map(one => one.innerText.trim())"
    assert live.page.locator("#switches .switch").evaluate_all(switched) == ["the causal mask"]


def test_the_tour_follows_what_is_typed(live: Opened, translator: Translator) -> None:
    at_station(live, "pieces")
    live.page.locator("#input").fill(TEXTS[0])
    ids = [*translator.source_tokenizer.encode(TEXTS[0]), EOS]
    live.page.wait_for_function(
        "count => document.querySelector('#station-numbers').textContent.split(' · ').length === count", arg=len(ids)
    )
    live.page.locator("#input").fill("")
    live.page.locator("#tour").wait_for(state="hidden")


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        {"positions": "learned"},
        {"positions": "rotary", "encoder__self_attention__score": "additive"},
        {"positions": "none", "encoder__self_attention__score": "dot"},
        {"decoder__cross_attention": None},
    ],
)
def test_models_of_other_kinds_have_a_tour_too(browser: Chromium, changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(build(untrained(TEXTS, **changes), "int8", TEXTS[1]), encoding="utf-8")
    stations = [name for name in STATIONS if name != "cross" or "decoder__cross_attention" not in changes]
    with without_errors(browser, path, width=1100) as opened:
        opened.page.locator("#tour-start").click()
        for at, name in enumerate(stations):
            opened.page.wait_for_function(
                "at => document.querySelector('#station-title').textContent.startsWith(at)", arg=str(at + 1)
            )
            assert opened.page.locator("#station-about").inner_text()
            if name != stations[-1]:
                opened.page.locator("#station-next").click()
        assert opened.page.locator("#station-next").is_disabled()


@pytest.mark.long
@pytest.mark.parametrize("colors", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_station_scrolls_sideways_or_violates_what_axe_core_checks(
    browser: Chromium, live_path: Path, width: int, colors: str
) -> None:
    axe = pytest.importorskip("axe_playwright_python", reason="pip install axe-playwright-python")
    opened = Opened(browser, live_path, viewport={"width": width, "height": 900}, color_scheme=colors)
    opened.piece("target", 1).wait_for()
    opened.page.evaluate(Path(axe.__file__).with_name("axe.min.js").read_text(encoding="utf-8"))
    for name in STATIONS:
        at_station(opened, name)
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width, name
        violations = opened.page.evaluate(
            "axe.run('#tour').then(found => found.violations.map(({ id, nodes }) => [id, nodes[0].html]))"
        )
        assert violations == [], name
    opened.close()


@pytest.mark.long
def test_firefox_takes_the_tour_too(firefox: Firefox, live_path: Path, translator: Translator) -> None:
    firefox.open(live_path)
    numbers = firefox.evaluate(
        """async () => {
          const wait = async found => { while (!found()) await new Promise(done => setTimeout(done, 20)); };
          const find = id => document.getElementById(id);
          await wait(() => !find("tour-start").hidden && document.querySelector("#target .piece"));
          find("tour-start").click();
          const numbers = [];
          for (;;) {
            await wait(() => find("station-numbers").textContent);
            numbers.push(find("station-numbers").textContent);
            if (find("station-next").disabled) return numbers;
            find("station-next").click();
          }
        }"""
    )
    assert len(numbers) == len(STATIONS)
    assert f"{EOS}" == numbers[0].rpartition(" ")[2]
