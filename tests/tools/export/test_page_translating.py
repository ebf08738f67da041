"""The results of the page's `window.translator`, in Chromium and in Firefox, compared with our own search and model."""

import io
import json
import math
import os
from collections.abc import Iterator
from copy import copy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import sentencepiece
import torch

from tests.browsers import Chromium, Firefox
from tests.cases import others_long
from tests.factories import small_model, tokenizer_settings
from tests.tools.export.models import TEXTS, Build, random_translator
from tests.tools.export.pages import Open, Opened, exported
from transformer import Translator
from transformer.data.text_files import read_lines
from transformer.data.tokenizer import BOS, EOS, PAD, Tokenizer, train_tokenizer
from transformer.inference.long_text import split_sentences
from transformer.inference.settings import Defaults
from transformer.inference.translator import BEAM
from transformer.tools.export.formats import ExportSettings
from transformer.tools.export.write import export
from transformer.tools.hub.vocabulary import parse
from transformer.tools.page.explanation import explain
from transformer.tools.page.export import build, rounded

TOY = Path(__file__).parents[3] / "data" / "toy"
HOSTILE = "</script><b>"
MARKUP = (
    *("</script><script>window.taken=1</script>", "<img src=//x.example onerror=window.taken=1>", "--><!--<script>"),
    *(
        "\u2028window.taken=1//",
        "\u202e\u2066\x01",
        "'><svg onload=window.taken=1>",
        "</title><iframe src=//x.example>",
    ),
    *("${window.taken=1}", "__proto__", "&lt;b&gt;", "<style>@import '//x.example'</style>"),
)
SENTENCES = "Der kleine Hund läuft. Wir gehen in den Park! "
MAP = {"u": "<img src=x>", "s": "<script>"}
# Typed arrays as lists, which every driver can transfer.
TRANSLATE, EXPLAIN = (
    f"""async ([text, options]) => JSON.parse(JSON.stringify(await window.translator.{method}(text, options),
    (_, value) => ArrayBuffer.isView(value) ? [...value] : value))"""
    for method in ("translate", "explain")
)


@pytest.fixture(scope="module")
def repeats(taught: Translator) -> Translator:
    """With the weights of its page."""
    return rounded(taught, "int8")


@pytest.fixture(scope="module")
def page(browser: Chromium, taught: Translator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    """In its own tab, because the other pages are opened between two of its tests."""
    opened = exported(taught, browser.new_tab(), tmp_path_factory.mktemp("page") / "translator.html")
    yield opened
    opened.assert_harmless()
    opened.close()


@pytest.mark.parametrize(
    "changes",
    others_long(
        [
            {"method": "beam"},
            {"method": "greedy"},
            {
                "method": "beam",
                "beam": 3,
                "length_penalty": 0.0,
                "min_length": 4,
                "length_ratio": 0.5,
                "length_extra": 0,
            },
            {"method": "beam", "beam": 2, "max_length": 3},
            {"method": "beam", "beam": 3, "patience": 2.5, "length_penalty": 2.5},
            {"method": "beam", "length_ratio": 0.2, "length_extra": 0},
            {"method": "beam", "no_repeat": 1},
            {"method": "greedy", "no_repeat": 0, "min_length": 9},
        ],
        short=2,
    ),
    ids=str,
)
def test_hypotheses_and_scores_are_those_of_our_search(
    page: Opened, repeats: Translator, changes: dict[str, Any]
) -> None:
    for text, expected in zip(TEXTS, repeats.n_best(TEXTS, replace(BEAM, **changes)), strict=True):
        found = page.ask(EXPLAIN, text, changes)
        if found is None:
            assert text == ""
            continue
        assert [one["text"] for one in found["hypotheses"]] == [one.text for one in expected]
        assert [one["pieces"][:-1] for one in found["hypotheses"]] == [one.pieces for one in expected]
        # As the page shows it, with the end symbol counted.
        assert [one["length"] for one in found["hypotheses"]] == [len(one.pieces) + 1 for one in expected]
        scores = [(one["score"], one["log_probability"]) for one in found["hypotheses"]]
        torch.testing.assert_close(
            torch.tensor(scores), torch.tensor([(one.score, one.log_probability) for one in expected])
        )


def test_the_page_searches_with_the_length_penalty_of_its_model(taught: Translator, open_page: Open) -> None:
    own = copy(taught)
    own.defaults = Defaults(length_penalty=2.5)
    page, text = open_page(own), TEXTS[0]
    shown = page.ask("() => document.getElementById('length-penalty').valueAsNumber")
    expected = [one.score for one in rounded(own, "int8").n_best(text)]
    for options in ({"method": "beam"}, asdict(BEAM)):  # as in configs/search/beam.yaml, with a penalty of null
        found = page.ask(EXPLAIN, text, options)
        assert shown == found["search"]["length_penalty"] == 2.5
        assert [one["score"] for one in found["hypotheses"]] == pytest.approx(expected, abs=1e-4)


def test_an_explanation_is_that_of_the_explain_page(page: Opened, repeats: Translator) -> None:
    found, expected = page.ask(EXPLAIN, TEXTS[1], asdict(BEAM)), explain(repeats, TEXTS[1])
    for key in ("text", "translation", "languages", "source", "target", "alignment"):
        assert found[key] == expected[key]
    for name, layers in expected["attention"].items():
        for heads, ours in zip(found["attention"][name], layers, strict=True):
            assert [[len(row) for row in head] for head in heads] == [[len(row) for row in head] for head in ours]
            pairs = [pair for head in zip(heads, ours, strict=True) for pair in zip(*head, strict=True)]
            assert all(abs(a - b) <= 1 for pair in pairs for a, b in zip(*pair, strict=True))  # thousandths
    for step, ours in zip(found["steps"], expected["steps"], strict=True):
        assert step["probability"] == pytest.approx(ours["probability"], abs=2e-5)
        assert [piece for piece, *_ in step["next_best"]] == [piece for piece, *_ in ours["next_best"]]
        assert [piece for piece, _ in step["layers"]] == [piece for piece, _ in ours["layers"]]
        shares = [share for _, share in ours["layers"]]
        assert [share for _, share in step["layers"]] == pytest.approx(shares, abs=2e-5)


def test_each_sentence_is_translated_by_itself_as_on_the_server(page: Opened, repeats: Translator) -> None:
    text = "Ja. der Hund?  \u200b! " + SENTENCES
    found = page.ask(TRANSLATE, text, {"method": "beam"})
    [[expected]] = repeats.n_best([text], split_lines="sentences")
    assert (found["text"], found["pieces"]) == (expected.text, expected.pieces)
    assert [found["score"], found["log_probability"]] == pytest.approx(
        [expected.score, expected.log_probability], abs=1e-4
    )
    assert "".join(one["source"] for one in found["sentences"]) == text.replace("\u200b! ", ""), "it stays as it is"
    lines = ["ein Haus", "\u200b", SENTENCES]
    expected_lines = repeats.translate(lines, split_lines="sentences")
    assert page.ask(TRANSLATE, "\n".join(lines), {"method": "beam"})["text"] == "\n".join(expected_lines)


@pytest.mark.long
def test_chinese_sentences_are_put_together_without_a_space(open_page: Open, taught: Translator) -> None:
    chinese = Translator(taught.model, taught.tokenizers, ("de", "zh"))
    both = Translator(taught.model, taught.tokenizers, ("de", "en"), [("de", "en"), ("de", "zh")])
    expected = rounded(chinese, "int8").translate(SENTENCES, split_lines="sentences")
    for translator in (chinese, both):
        found = open_page(translator).ask(TRANSLATE, SENTENCES, {"method": "beam", "languages": ["de", "zh"]})
        assert found["text"] == expected


@pytest.mark.long
def test_two_calls_at_a_time_keep_to_their_own_languages(open_page: Open) -> None:
    tagged = train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", 63), ("de", "en", "zh"))
    directions = [("de", "en"), ("de", "zh")]
    page = open_page(Translator(random_translator(tagged).model, (tagged, tagged), ("de", "en"), directions))
    # Without a prefix the model would end at once.
    options = [{"languages": languages, "min_length": 5} for languages in directions]
    alone = [page.ask(TRANSLATE, SENTENCES * 5, each) for each in options]
    together = page.ask(
        """([text, options]) => Promise.all(options.map(each =>
          window.translator.translate(text, each).then(({ text, score }) => ({ text, score }))))""",
        SENTENCES * 5,
        options,
    )
    assert together == [{"text": found["text"], "score": found["score"]} for found in alone]
    assert together[0]["score"] != together[1]["score"]


def test_an_explanation_of_one_sentence_of_a_text_is_that_of_the_sentence_alone(page: Opened) -> None:
    first, second = split_sentences(SENTENCES)
    prefix = page.ask(EXPLAIN, "der Park", {})["source_ids"][:-1]
    alone = page.ask(EXPLAIN, second, {"prefix": prefix})
    for number in (1, 9):  # there is no tenth: the last
        found = page.ask(EXPLAIN, SENTENCES, {"sentence": number, "prefix": prefix})
        assert found["sentence"] == 1
        translations = [page.ask(TRANSLATE, first, {})["text"], alone["translation"]]
        assert [one["translation"] for one in found["sentences"]] == translations
        assert found["full_translation"] == " ".join(translations)
        own = ("sentence", "sentences", "full_translation")
        assert {key: found[key] for key in found if key not in own} == {
            key: alone[key] for key in alone if key not in own
        }


def test_only_the_sentence_that_changes_is_translated_again(page: Opened) -> None:
    first, second = split_sentences(SENTENCES)
    steps = """async ([text, sentence]) => {
      const seen = [], options = { sentence, beam: 7, method: "beam", progress: one => seen.push(one.text) };
      const { full_translation } = await window.translator.explain(text, options);
      return { seen, full_translation };
    }"""
    alone = {text: page.ask(steps, text, 0)["full_translation"] for text in (first, second, "Der Park")}
    page.ask(steps, SENTENCES, 0)
    changed = page.ask(steps, f"{first}Der Park", 1)
    assert changed["full_translation"] == f"{alone[first]} {alone['Der Park']}"
    assert all(text.startswith(alone[first]) for text in changed["seen"])
    assert len(page.ask(steps, f"{first}{second}", 1)["seen"]) == len(page.ask(steps, second, 0)["seen"])


def test_every_kept_candidate_of_the_tree_continues_a_place_of_the_step_before(page: Opened) -> None:
    found = page.ask(EXPLAIN, TEXTS[1], {"method": "beam", "beam": 3, "tree": True})
    paths: list[list[str]] = [[]]
    ended = {}
    for position, step in enumerate(found["tree"]):
        assert step["position"] == position
        totals = [candidate["total"] for candidate in step["candidates"]]
        assert totals == sorted(totals, reverse=True)
        grown = [[*paths[candidate["origin"]], candidate["piece"]] for candidate in step["candidates"]]
        for candidate, path in zip(step["candidates"], grown, strict=True):
            if candidate["hypothesis"] is not None:
                ended[candidate["hypothesis"]] = path
        kept = {candidate["place"]: path for candidate, path in zip(step["candidates"], grown, strict=True)}
        paths = [kept[place] for place in sorted(place for place in kept if place is not None)]
    assert [ended[index] for index in sorted(ended)] == [one["pieces"] for one in found["hypotheses"]]


def test_a_forced_beginning_is_kept_and_goes_on_as_the_model_would(page: Opened, repeats: Translator) -> None:
    prefix = repeats.target_tokenizer.encode("der Park")
    found = page.ask(EXPLAIN, "die Sonne scheint", {"prefix": prefix})
    ids = found["target_ids"]
    assert ids[: len(prefix) + 1] == [BOS, *prefix]
    source = torch.tensor([found["source_ids"]])
    with torch.no_grad():
        logits = repeats.model(source, torch.tensor([ids[:-1]]))[0]
    assert logits.argmax(dim=-1).tolist()[len(prefix) :] == ids[len(prefix) + 1 :]


def test_a_traced_attention_gives_the_weights_step_by_step(page: Opened) -> None:
    asked = {"attention": "decoder", "layer": 1, "head": 2}
    found = page.ask(EXPLAIN, TEXTS[1], {"trace": asked})
    steps = {}
    for step in found["trace"]["steps"]:
        values = [-math.inf if value is None else value for value in step["values"]]  # JSON has no infinity
        steps[step["name"]] = torch.tensor(values).reshape(step["shape"])
    expected = torch.tensor(
        [row + [0] * (len(found["steps"]) - len(row)) for row in found["attention"]["decoder"][1][2]]
    )
    query, key, value = steps["query"], steps["key"], steps["value"]
    torch.testing.assert_close(steps["product"], query @ key.T)
    torch.testing.assert_close(steps["scaled"], query @ key.T / query.size(1) ** 0.5)
    torch.testing.assert_close(steps["masked"].softmax(dim=-1), steps["weights"])
    torch.testing.assert_close(steps["weights"] * 1000, expected.float(), atol=0.51, rtol=0)
    torch.testing.assert_close(steps["head"], steps["weights"] @ value)
    torch.testing.assert_close(steps["sum"], steps["input"] + steps["output"])
    torch.testing.assert_close(steps["feed_sum"], steps["feed_input"] + steps["feed_output"])


def without_positions(translator: Translator) -> None:
    for side in (translator.model.encoder, translator.model.decoder):
        side.embedding.positions.table.zero_()  # type: ignore[operator, union-attr]


def without_head(translator: Translator) -> None:
    layer = translator.model.decoder.layers[1].cross_attention
    layer.output.weight[:, layer.value_dim : 2 * layer.value_dim] = 0  # type: ignore[operator, union-attr, index]


def without_layer(translator: Translator) -> None:
    translator.model.encoder.layers = translator.model.encoder.layers[1:]


def without_cross(translator: Translator) -> None:
    for layer in translator.model.decoder.layers:
        for parameter in layer.cross_attention.output.parameters():  # type: ignore[union-attr, operator]
            parameter.zero_()


def without_scale(translator: Translator) -> None:
    for module in translator.model.modules():
        if hasattr(module, "score"):
            module.score.scale = 1.0


@pytest.mark.parametrize(
    ("modify", "change"),
    others_long(
        [
            ({"positions": False}, without_positions),
            ({"heads": [{"attention": "cross", "layer": 1, "head": 1}]}, without_head),
            ({"layers": [{"side": "encoder", "layer": 0}]}, without_layer),
            ({"scale": False}, without_scale),
            ({"cross": False}, without_cross),
        ],
        short=2,
    ),
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_is_switched_off_is_as_if_the_model_did_not_have_it(
    page: Opened, taught: Translator, modify: dict[str, Any], change: Any
) -> None:
    changed = rounded(taught, "int8")
    with torch.no_grad():
        change(changed)
    found = page.ask(EXPLAIN, TEXTS[1], {"modify": modify})
    expected = changed.n_best([TEXTS[1]], replace(BEAM, method="greedy"))[0][0]
    assert found["hypotheses"][0]["pieces"][:-1] == expected.pieces
    assert found["hypotheses"][0]["score"] == pytest.approx(expected.score, abs=1e-4)
    assert found != page.ask(EXPLAIN, TEXTS[1], {})


def test_visible_padding_is_read_as_words_would_be(page: Opened, repeats: Translator) -> None:
    found = page.ask(EXPLAIN, TEXTS[1], {"modify": {"padding": 3}})
    assert found["source_ids"][-4:] == [EOS, PAD, PAD, PAD]
    with torch.no_grad():
        inputs = torch.tensor([found["target_ids"][:-1]])
        probabilities = repeats.model(torch.tensor([found["source_ids"]]), inputs)[0].softmax(dim=-1)
    expected = probabilities[range(inputs.size(1)), found["target_ids"][1:]]
    torch.testing.assert_close(
        torch.tensor([step["probability"] for step in found["steps"]]), expected, atol=1e-4, rtol=0
    )


def test_without_the_causal_mask_every_position_sees_the_later_ones(page: Opened) -> None:
    found = page.ask(EXPLAIN, TEXTS[1], {"modify": {"causal": False}})
    rows = found["attention"]["decoder"][0][0]
    assert all(len(row) == len(rows) for row in rows)
    assert rows[0][1] > 0


def test_shuffled_words_are_the_same_words_in_another_order(page: Opened) -> None:
    found = page.ask(EXPLAIN, TEXTS[4], {"modify": {"shuffle": 1}})
    assert found["text"] != TEXTS[4]
    assert sorted(found["text"].split()) == sorted(TEXTS[4].split())


def test_a_sampled_translation_depends_on_its_seed_alone(page: Opened) -> None:
    texts = [page.ask(TRANSLATE, TEXTS[1], {"method": "sampling", "seed": seed})["text"] for seed in (1, 1, 2, 3, 4)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 2
    cold = {"method": "sampling", "temperature": 0.001}
    assert page.ask(TRANSLATE, TEXTS[1], cold)["text"] == page.ask(TRANSLATE, TEXTS[1], {})["text"]


def test_two_sentences_of_a_text_are_drawn_with_numbers_of_their_own(page: Opened) -> None:
    # Without cross-attention, all sentences have the same probabilities.
    options = {"modify": {"cross": False}, "min_length": 5, "max_length": 5}

    def translations(method: str) -> list[str]:
        found = page.ask(EXPLAIN, SENTENCES, options | {"method": method})
        return [one["translation"] for one in found["sentences"]]

    [first, second] = translations("greedy")
    assert first == second
    [first, second] = translations("sampling")
    assert first != second


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "Beam"}, "method=Beam is not allowed; choose one of greedy, beam, sampling"),
        ({"method": "beam", "beam": 0}, "beam=0 must be a whole number, at least 1"),
        ({"method": "beam", "beam": 2.5}, "beam=2.5 must be a whole number, at least 1"),
    ],
)
def test_a_wrong_search_is_refused(page: Opened, options: dict[str, Any], message: str) -> None:
    ask = "([text, options]) => translator.translate(text, options).catch(error => error.message)"
    assert page.ask(ask, TEXTS[1], options) == message


def test_a_sampled_translation_is_drawn_from_the_most_probable_ids(page: Opened) -> None:
    def drawn(**options: float) -> list[tuple[list[float], float]]:
        """For each step the probabilities of better ids than the drawn one, and its own."""
        asked = [{"method": "sampling", "seed": seed, **options} for seed in range(5)]
        steps = [step for each in asked for step in page.ask(EXPLAIN, TEXTS[1], each)["steps"]]
        return [
            ([p for _, p, _ in step["next_best"] if p > step["probability"]], step["probability"]) for step in steps
        ]

    assert max(len(better) for better, _ in drawn(top_k=2)) == 1
    by_share = drawn(top_p=0.6)
    assert max(sum(better) for better, _ in by_share) < 0.6
    assert any(better and sum(better) + own > 0.6 for better, own in by_share)


def test_an_over_long_text_is_cut_at_a_word_and_says_where(page: Opened, repeats: Translator) -> None:
    encode = repeats.source_tokenizer.encode
    for times in (17, 20, 23):  # the page halves the range to find the place
        text = "wir gehen in den Park, " * times
        found = page.ask(TRANSLATE, text, {})
        cut = found["sentences"][0]["cut"]
        assert (cut["limit"], cut["tokens"]) == (31, len(encode(text)))
        assert text[cut["at"]] == " "
        next_word = text[cut["at"] :].split(" ")[1]
        assert len(encode(text[: cut["at"]])) <= 31 < len(encode(f"{text[: cut['at']]} {next_word}"))
        assert found["text"] == page.ask(TRANSLATE, text[: cut["at"]], {})["text"]


@pytest.mark.long
def test_a_page_shows_sentences_of_up_to_200_pieces(open_page: Open, build: Build) -> None:
    opened = open_page(build(max_length=300))
    for words, limit in ((99, None), (150, 200)):
        found = opened.ask(EXPLAIN, "ja " * words, {"max_length": 1})
        cut = found["sentences"][0]["cut"]
        assert (cut and cut["limit"]) == limit
    assert len(found["source"]) == 201


def test_one_word_that_is_too_long_is_cut_within_and_one_that_fits_is_not(page: Opened, repeats: Translator) -> None:
    word = "ua" * 60
    at = page.ask(TRANSLATE, word, {})["sentences"][0]["cut"]["at"]
    assert len(repeats.source_tokenizer.encode(word[:at])) == 31
    assert page.ask(TRANSLATE, word[:at], {})["sentences"][0]["cut"] is None


def test_padding_takes_places_of_an_over_long_text(page: Opened) -> None:
    found = page.ask(EXPLAIN, "ja " * 60, {"modify": {"padding": 3}})
    assert len(found["source_ids"]) == 32  # all positions of the model
    assert found["source_ids"][-4:] == [EOS, PAD, PAD, PAD]


def test_a_sentence_that_is_remembered_is_still_cut(page: Opened) -> None:
    text = "wir gehen in den Park, " * 20 + "ja! Nein."
    first, again = (page.ask(EXPLAIN, text, {"sentence": 1})["sentences"] for _ in range(2))
    assert first == again
    assert first[0]["cut"]["limit"] == 31


def test_a_translation_is_one_line_also_where_bytes_spell_its_end(open_page: Open) -> None:
    tokenizer = train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", 320, byte_fallback=True))
    prefix = tokenizer.ids(["▁ja", "<0x0D>", "<0x0A>", "▁ja"])
    found = open_page(random_translator(tokenizer)).ask(TRANSLATE, "ja", {"prefix": prefix, "max_length": 1})
    assert found["ids"] == prefix
    assert found["text"] == "ja  ja"


def test_a_call_can_be_taken_back_and_shows_its_progress(page: Opened) -> None:
    found = page.ask(
        """async ([text]) => {
          const seen = [], stop = new AbortController(), other = new AbortController();
          const gone = window.translator.translate(text, { signal: other.signal }).catch(error => error.name);
          other.abort();
          const options = { signal: stop.signal, progress: one => seen.push(one.text) };
          const result = await window.translator.translate(text, options);
          return { gone: await gone, seen, text: result.text };
        }""",
        TEXTS[1],
    )
    assert found["gone"] == "AbortError"
    assert found["seen"][-1] == found["text"]
    assert len(found["seen"]) > 2


def test_a_short_call_does_not_wait_for_a_long_one(page: Opened) -> None:
    found = page.ask(
        """async ([text]) => {
          const done = [], stop = new AbortController();
          window.translator.translate(text, { signal: stop.signal }).then(() => done.push("long"), () => {});
          await window.translator.translate("ja", {}).then(() => done.push("short"));
          stop.abort();
          return done;
        }""",
        SENTENCES * 200,
    )
    assert found == ["short"]


def test_markup_in_a_text_is_translated_as_text(page: Opened, repeats: Translator) -> None:
    assert page.ask(TRANSLATE, HOSTILE, {"method": "beam"})["text"] == repeats.translate([HOSTILE])[0]
    assert page.ask("() => document.querySelectorAll('main b b').length") == 0


def test_markup_in_a_models_pieces_and_languages_stays_text(open_page: Open, taught: Translator) -> None:
    """The open page may have no errors and no requests: see `open_page`."""
    model = parse(taught.source_tokenizer.model)
    pieces = [piece for piece in model.pieces if piece.type == piece.NORMAL]
    for number, piece in enumerate(pieces):
        piece.piece = f"{MARKUP[number % len(MARKUP)]}{number}"
    tokenizer = Tokenizer(model.SerializeToString(), "bpe")
    hostile = Translator(taught.model, (tokenizer, tokenizer), (MARKUP[0], MARKUP[1]))
    opened = open_page(hostile)
    opened.page.locator("#input").fill("ein Haus")
    opened.page.wait_for_function("() => document.querySelector('main').innerText.includes('onerror')")
    found = opened.ask(EXPLAIN, "ein Haus", {})
    assert found["languages"] == list(MARKUP[:2])
    assert opened.ask("() => [window.taken, document.querySelectorAll('main script, main img, iframe').length]") == [
        None,
        0,
    ]


def test_markup_in_a_models_name_and_map_of_characters_stays_text(
    browser: Chromium, taught: Translator, tmp_path: Path
) -> None:
    # A map that replaces letters with markup, made as by SentencePiece.
    rules, model = (
        "".join(f"{ord(a):X}\t{' '.join(f'{ord(b):X}' for b in text)}\n" for a, text in MAP.items()),
        io.BytesIO(),
    )
    (tmp_path / "rules.tsv").write_text(rules, encoding="utf-8")
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(TEXTS), model_writer=model, model_type="char", vocab_size=20, hard_vocab_limit=False,
        normalization_rule_tsv=str(tmp_path / "rules.tsv"), minloglevel=2,
    )  # fmt: skip
    changed = parse(taught.source_tokenizer.model)
    changed.normalizer_spec.precompiled_charsmap = parse(model.getvalue()).normalizer_spec.precompiled_charsmap
    tokenizer = Tokenizer(changed.SerializeToString(), "bpe")
    hostile = Translator(taught.model, (tokenizer, tokenizer), ("de", "en"))
    hostile.save(tmp_path / "hostile.safetensors")
    loaded = Translator.load(tmp_path / "hostile.safetensors")  # it passes the checks of untrusted files
    (tmp_path / "page.html").write_text(build(loaded, "int8", "das Haus", MARKUP[0]), encoding="utf-8")
    opened = Opened(browser.tab(), tmp_path / "page.html")
    source = opened.ask(EXPLAIN, "das Haus", {})["source"]
    assert source == explain(rounded(loaded, "int8"), "das Haus")["source"]
    assert "scri" in "".join(source)
    assert opened.ask("() => [window.taken, document.querySelectorAll('main script, main img, iframe').length]") == [
        None,
        0,
    ]
    opened.assert_harmless()
    opened.close()


def test_a_model_of_both_directions_is_asked_for_the_one_it_was_exported_for(open_page: Open) -> None:
    tagged = train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", 62), ("de", "en"))
    model = small_model(source_vocab_size=62, target_vocab_size=62, max_length=32)
    for languages in (("de", "en"), ("en", "de")):
        translator = Translator(model, (tagged, tagged), languages)  # type: ignore[arg-type]
        found = open_page(translator).ask(EXPLAIN, "ja", {})
        assert found["source"][0] == f"<2{languages[1]}>"
        assert found["languages"] == list(languages)


def test_a_page_of_several_directions_translates_in_the_one_that_is_chosen(open_page: Open) -> None:
    tagged = train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", 63), ("de", "en", "fr"))
    model = small_model(source_vocab_size=63, target_vocab_size=63, max_length=32)
    directions = [("de", "en"), ("en", "de"), ("en", "fr")]
    translator = Translator(model, (tagged, tagged), ("de", "en"), directions)
    opened = open_page(translator)
    for languages in directions:
        [expected] = rounded(translator, "int8").in_direction(*languages).n_best(["ja"], replace(BEAM, method="greedy"))
        found = opened.ask(EXPLAIN, "ja", {"method": "greedy", "languages": languages})
        assert (found["source"][0], found["languages"]) == (f"<2{languages[1]}>", list(languages))
        assert found["hypotheses"][0]["score"] == pytest.approx(expected[0].score, abs=1e-5)
    refused = "([languages]) => translator.translate('ja', { languages }).catch(error => error.message)"
    assert opened.ask(refused, ["fr", "de"]) == "This model has not learned fr → de."
    choice = opened.page.locator("#direction")
    assert choice.locator("option").all_text_contents() == ["German → English", "English → German", "English → French"]
    opened.page.fill("#input", "ja")
    choice.select_option(label="English → French")
    opened.page.locator("#languages", has_text="English → French").wait_for()
    assert opened.page.locator("#input-label").text_content() == "Source: type a sentence in English"
    assert opened.page.locator("#input").get_attribute("lang") == "en"


def test_the_heading_does_not_wait_for_a_text(open_page: Open) -> None:
    tagged = train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", 62), ("de", "en"))
    model = small_model(source_vocab_size=62, target_vocab_size=62, max_length=32)
    page = open_page(Translator(model, (tagged, tagged), ("de", "en"), [("de", "en"), ("en", "de")])).page
    assert page.locator("#languages").text_content() == "German → English"
    page.locator("#model", has_text=f"of width {model.config.dim}").wait_for()
    page.locator("#direction").select_option(label="English → German")
    assert page.locator("#languages").text_content() == "English → German"


def test_a_page_with_a_vocabulary_for_each_side_uses_the_right_one(open_page: Open, build: Build) -> None:
    translator = build(tied_embeddings="target")
    other = train_tokenizer([text.upper() for text in TEXTS * 3], tokenizer_settings("bpe", 60))
    both = Translator(translator.model, (translator.source_tokenizer, other), ("de", "en"))
    found = open_page(both).ask(TRANSLATE, "der Park", {"method": "beam"})
    assert found["text"] == rounded(both, "int8").translate(["der Park"])[0]


@pytest.mark.parametrize("where", ["cut off", "altered", "no program"])
def test_a_damaged_page_says_so(browser: Chromium, taught: Translator, tmp_path: Path, where: str) -> None:
    path = tmp_path / "translator.html"
    export(taught, ExportSettings("page", None, str(path)))
    html = path.read_text(encoding="utf-8")
    middle = html.index('id="weights"') + 5000
    damaged = {
        "cut off": html[:middle],
        "altered": html[:middle] + ("AAAA" if html[middle : middle + 4] != "AAAA" else "BBBB") + html[middle + 4 :],
        "no program": html[: html.index('id="runtime"') + 500],
    }
    path.write_text(damaged[where], encoding="utf-8")
    opened = Opened(browser.tab(), path)
    assert opened.status.startswith("This file is damaged")
    opened.close()


@pytest.mark.long
def test_firefox_translates_the_same(
    firefox: Firefox, open_page: Open, taught: Translator, repeats: Translator
) -> None:
    opened = open_page(taught, firefox=firefox)
    for text, expected in zip(TEXTS, repeats.n_best(TEXTS), strict=True):
        found = opened.ask(TRANSLATE, text, {"method": "beam"})
        assert found["text"] == expected[0].text
        assert found["score"] == pytest.approx(expected[0].score, abs=1e-5)
    assert opened.ask("() => performance.getEntriesByType('resource').length") == 0


@pytest.mark.skipif("PAGE_RUN" not in os.environ, reason="PAGE_RUN names no run on the bundled corpus to compare with")
@pytest.mark.parametrize("precision", ["int8", "float16"])
def test_the_whole_test_set_scores_as_in_evaluate(open_page: Open, precision: str) -> None:
    """PAGE_RUN=runs/… pytest -rP tests/tools/export -k whole_test_set"""
    translator = Translator.load(os.environ["PAGE_RUN"])
    sources, references = (list(read_lines(TOY / f"test.{language}")) for language in translator.languages)
    page = open_page(translator, precision)
    expected = json.loads((Path(os.environ["PAGE_RUN"]) / "test.json").read_text(encoding="utf-8"))["test"]["bleu"]
    found = [page.ask(TRANSLATE, source, {"method": "beam"})["text"] for source in sources]
    bleu = sacrebleu.corpus_bleu(found, [references]).score
    same = sum(a == b for a, b in zip(found, rounded(translator, precision).translate(sources), strict=True))
    print(f"{precision}: BLEU {bleu:.2f}, evaluate.py {expected:.2f}; of {len(found)} translations {same} as PyTorch's")
    assert bleu == pytest.approx(expected, abs=0.3)
    assert same >= 0.99 * len(found)
