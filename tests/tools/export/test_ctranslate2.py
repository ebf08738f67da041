"""CTranslate2 compared with our own model and search: equal translations and scores; unsupported things are refused."""

import json
import math
import os
import re
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sentencepiece import SentencePieceProcessor

from tests.cases import others_long
from tests.factories import small_model, tokenizer_settings
from tests.pages import play
from tests.tools.export.models import TEXTS, Build
from transformer import Translator
from transformer.data.text_files import read_lines
from transformer.data.tokenizer import BOS, EOS, train_tokenizer
from transformer.files import EXPORT_MANIFEST, sha256
from transformer.inference.confidence import with_words
from transformer.inference.loading import load_translator
from transformer.inference.parts import Translation
from transformer.inference.settings import Defaults, InferenceSettings, TranslatorSettings
from transformer.inference.translator import BEAM
from transformer.machine import MachineSettings
from transformer.tools.export.engine import load
from transformer.tools.export.formats import ExportSettings
from transformer.tools.export.write import export
from transformer.tools.page.explanation import explain

ctranslate2 = pytest.importorskip("ctranslate2", reason="the export extra is not installed")

TOY = Path(__file__).parents[3] / "data" / "toy"
LOADING = TranslatorSettings(
    None, None, BEAM, MachineSettings(1, "highest", None), InferenceSettings("cpu", "auto", None)
)

VARIANTS: dict[str, dict[str, object]] = {
    "as the presets": {},
    "learned, post, gelu": {"positions": "learned", "norm": "post", "feed_forward__activation": "gelu"},
    "rotary, swiglu, nothing tied": {
        "positions": "rotary",
        "feed_forward__activation": "swiglu",
        "tied_embeddings": "none",
    },
    "no positions, dot, other heads in the encoder": {
        "positions": "none",
        "encoder__self_attention__heads": 4,
        "decoder__self_attention__score": "dot",
    },
    "bilinear, no biases": {
        "positions": "rotary",
        "decoder__cross_attention__score": "bilinear",
        "encoder__self_attention__score": "bilinear",
        "encoder__self_attention__bias": False,
        "decoder__self_attention__bias": False,
    },
    "heads of a width of their own": {
        "positions": "rotary",
        "encoder__layers": 1,
        "encoder__self_attention__head_dim": 4,
        "encoder__self_attention__value_dim": 4,
        "decoder__cross_attention__head_dim": 11,
        "decoder__cross_attention__value_dim": 11,
    },
}


def exported(translator: Translator, folder: Path, precision: str = "float32") -> Translator:
    export(translator, ExportSettings("ctranslate2", precision, str(folder)))  # type: ignore[arg-type]
    return load(folder, "cpu", 1)


def assert_same(found: list[list[Translation]], expected: list[list[Translation]]) -> None:
    """The same best translations, and the same scores for translations in both lists."""
    assert [[h.text for h in hypotheses[:1]] for hypotheses in found] == [
        [h.text for h in hypotheses[:1]] for hypotheses in expected
    ]
    for theirs, ours in zip(found, expected, strict=True):
        assert len(theirs) == len(ours)
        scores = {tuple(h.pieces): (h.score, h.log_probability) for h in ours}
        for hypothesis in theirs:
            if tuple(hypothesis.pieces) in scores:
                expected_scores = scores[tuple(hypothesis.pieces)]
                assert (hypothesis.score, hypothesis.log_probability) == pytest.approx(expected_scores, abs=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_engine_gives_every_token_the_probability_of_a_teacher_forced_pass(
    build: Build, tmp_path: Path, variant: str
) -> None:
    translator = build(**VARIANTS[variant])
    engine = exported(translator, tmp_path / "engine")
    source, target = torch.randint(EOS + 1, 60, (2, 5, 9))
    source[:, -1] = target[:, -1] = EOS
    piece = translator.target_tokenizer.piece
    found = engine._engine.score_batch(
        *([[piece(id) for id in row[:-1]] for row in side.tolist()] for side in (source, target))
    )
    with torch.no_grad():
        inputs = torch.cat([torch.full((5, 1), BOS), target[:, :-1]], dim=1)
        expected = translator.model(source, inputs).log_softmax(-1).gather(2, target[..., None]).squeeze(2)
    torch.testing.assert_close(torch.tensor([scored.log_probs for scored in found]), expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(
    "changes",
    others_long(
        [
            {},
            {"method": "greedy"},
            {"beam": 1},
            {"beam": 3, "length_penalty": 0.0},
            {"length_penalty": 0.0},
            {"beam": 3, "patience": 2.5},
            {"length_penalty": 0.6},
            {"length_penalty": -0.5},
            {"max_length": 3},
            {"length_ratio": 0.3, "length_extra": 1},
            {"beam": 1, "length_ratio": 0.7, "length_extra": 0},
        ],
        short=4,
    ),
    ids=str,
)
def test_a_search_finds_the_same_translations_with_the_same_scores(
    taught: Translator, tmp_path: Path, changes: dict[str, object]
) -> None:
    search = replace(BEAM, **changes)  # type: ignore[arg-type]
    found, expected = exported(taught, tmp_path / "engine").n_best(TEXTS, search), taught.n_best(TEXTS, search)
    assert_same(found, expected)
    if changes.keys() & {"max_length", "length_ratio"}:
        return  # at the limits the engine keeps no second best of hypotheses that ended one step earlier
    # It keeps the best of the hypotheses that end in the last step, so its lists are as good at every place.
    for theirs, ours in zip(found, expected, strict=True):
        assert all(their.score > our.score - 1e-4 for their, our in zip(theirs, ours, strict=True))


RESTRICTED = [{"prefix": "der Park"}, {"no_repeat": 1}, {"min_length": 9}, {"prefix": "ja, ", "length_ratio": 0.3}]


@pytest.mark.parametrize("changes", RESTRICTED, ids=str)
def test_a_restricted_search_finds_the_same_greedily_and_by_beam_what_the_model_scores_so(
    taught: Translator, tmp_path: Path, changes: dict[str, object]
) -> None:
    engine = exported(taught, tmp_path / "engine")
    greedy = replace(BEAM, method="greedy", **changes)  # type: ignore[arg-type]
    assert_same(engine.n_best(TEXTS, greedy), taught.n_best(TEXTS, greedy))
    beam = replace(greedy, method="beam", no_repeat=greedy.no_repeat or 0)
    for text, theirs in zip(TEXTS, engine.n_best(TEXTS, beam), strict=True):
        assert theirs[0].text.startswith(str(changes.get("prefix", "")).strip()) or not text
        ids = [taught.target_tokenizer.ids(one.pieces) for one in theirs if text]
        found = taught.token_log_probabilities([taught.source_tokenizer.encode(text)] * len(ids), ids)
        assert [one.score for one in theirs if text] == pytest.approx([sum(of) / len(of) for of in found], abs=1e-4)
        assert [one.score for one in theirs] == sorted((one.score for one in theirs), reverse=True)
        for one in theirs:
            assert len(one.pieces) >= greedy.min_length or not text
            assert not greedy.no_repeat or len(set(one.pieces)) == len(one.pieces)


def test_an_export_given_as_a_checkpoint_says_what_takes_it(taught: Translator, tmp_path: Path) -> None:
    exported(taught, tmp_path / "engine")
    with pytest.raises(ValueError, match=r"engine is an export: only translate, augment, serve and inference\.loading"):
        Translator.load(tmp_path / "engine")


def test_results_that_an_engine_lacks_are_refused_with_an_alternative(taught: Translator, tmp_path: Path) -> None:
    engine = exported(taught, tmp_path / "engine")
    with pytest.raises(ValueError, match="shows no attention weights: load the run that it was made from"):
        explain(engine, "ja")
    with pytest.raises(ValueError, match="copy the folder, or save its own run"):
        engine.save(tmp_path / "t.safetensors")


def test_what_only_checkpoints_can_do_is_refused_for_an_export(taught: Translator, tmp_path: Path) -> None:
    exported(taught, tmp_path / "engine")
    with pytest.raises(ValueError, match="engine is an export: an ensemble needs checkpoints: give the run"):
        load_translator([tmp_path / "t.safetensors", tmp_path / "engine"], LOADING)


@pytest.mark.parametrize("languages", [(None, None), ("de", "fr")])
def test_a_direction_that_an_export_has_not_learned_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, languages: tuple[str | None, str | None]
) -> None:
    tagged = train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", 63), ("de", "en", "fr"))
    model = small_model(source_vocab_size=63, target_vocab_size=63, max_length=32)
    exported(Translator(model, (tagged, tagged), ("de", "fr"), [("de", "en"), ("en", "fr")]), tmp_path / "engine")
    caplog.clear()
    source, target = languages
    load_translator([tmp_path / "engine"], replace(LOADING, source_language=source, target_language=target))
    assert caplog.messages == ["de → fr was not trained, only de → en, en → fr: a guess"]


def test_an_export_searches_with_the_length_penalty_of_its_model(taught: Translator, tmp_path: Path) -> None:
    own = copy(taught)
    own.defaults = Defaults(length_penalty=2.5)
    assert_same(
        exported(own, tmp_path / "engine").n_best(TEXTS), taught.n_best(TEXTS, replace(BEAM, length_penalty=2.5))
    )


def test_an_export_finds_given_translations_as_probable_as_the_translator_does(
    taught: Translator, tmp_path: Path
) -> None:
    texts = [text for text in TEXTS if taught.source_tokenizer.encode(text)]
    engine = exported(taught, tmp_path / "engine")
    for theirs, ours in zip(engine.score(texts, texts[::-1]), taught.score(texts, texts[::-1]), strict=True):
        assert theirs.pieces == ours.pieces
        assert theirs.log_probabilities == pytest.approx(ours.log_probabilities, abs=1e-4)


def test_an_export_is_as_sure_as_the_translator_and_names_no_source_words(taught: Translator, tmp_path: Path) -> None:
    texts, engine = [*TEXTS, "Der Park. 12! Ja."], exported(taught, tmp_path / "engine")
    found, expected = (
        [of_text[0] for of_text in one.n_best(texts, split_lines="sentences")] for one in (engine, taught)
    )
    assert [one.confidence for one in found] == pytest.approx([one.confidence for one in expected], abs=1e-4)
    words, theirs = (
        [word for translation in with_words(one, texts, best) for word in translation.words or []]
        for one, best in ((taught, expected), (engine, found))
    )
    assert [word.text for word in theirs] == [word.text for word in words]
    assert [word.confidence for word in theirs] == pytest.approx([word.confidence for word in words], abs=1e-4)
    kept = [word for word in theirs if word.source is not None]  # without the words that were copied
    assert kept == [("12!", 1.0, 2)]


def test_long_lines_empty_ones_and_batches_are_those_of_the_translator(
    taught: Translator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = exported(taught, tmp_path / "engine")
    long = " ".join(["wir gehen in den Park."] * 20)
    assert engine.translate(["", long, " ", "ja"]) == taught.translate(["", long, " ", "ja"])
    assert "line 2 has" in caplog.text
    with pytest.raises(ValueError, match="line 1 has"):
        engine.translate([long], split_lines="never")
    assert engine.translate(TEXTS, batch_tokens=1) == engine.translate(TEXTS)
    assert (engine.source_language, engine.target_language, engine.device.type) == ("de", "en", "cpu")


def test_every_token_of_a_text_above_the_engines_own_limit_is_read(build: Build, tmp_path: Path) -> None:
    tokenizers = build().tokenizers
    sizes = dict.fromkeys(("source_vocab_size", "target_vocab_size"), len(tokenizers[0]))
    translator = Translator(small_model(**sizes, max_length=1300), tokenizers, ("de", "en"))
    search = replace(BEAM, max_length=2)  # every search is cut off, and the engine searches and scores
    found = exported(translator, tmp_path / "engine").n_best(["ja " * 600], search, split_lines="never")
    assert_same(found, translator.n_best(["ja " * 600], search, split_lines="never"))


def test_pieces_that_the_vocabulary_lacks_are_unknown_to_an_exported_engine(build: Build, tmp_path: Path) -> None:
    engine = exported(build(), tmp_path / "engine")._engine  # type: ignore[attr-defined]
    # The pieces of SentencePiece, for programs without this project.
    unknown, named = ([["ja", piece, "in"]] for piece in ("猫", "<unk>"))
    found, expected = (engine.score_batch(source, [["ja"]])[0].log_probs for source in (unknown, named))
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.long
def test_a_model_of_both_directions_is_asked_for_the_one_it_was_exported_for(tmp_path: Path) -> None:
    settings = tokenizer_settings("bpe", 62)
    tagged = train_tokenizer(TEXTS * 3, settings, ("de", "en"))
    model = small_model(source_vocab_size=62, target_vocab_size=62, max_length=32)
    found = {}
    for languages in (("de", "en"), ("en", "de")):
        translator = Translator(model, (tagged, tagged), languages)  # type: ignore[arg-type]
        engine = exported(translator, tmp_path / languages[0])
        assert [engine.source_tokenizer.piece(id) for id in engine.source_tokenizer.prefix] == [f"<2{languages[1]}>"]
        # As in docs/export.md: the tag is a token, not a part of the text.
        processor = SentencePieceProcessor(model_file=str(tmp_path / languages[0] / "source.spm"))
        pieces = processor.encode(TEXTS[1], out_type=str)
        ids = engine.source_tokenizer.encode(TEXTS[1])
        assert [f"<2{languages[1]}>", *pieces] == [engine.source_tokenizer.piece(id) for id in ids]
        once = replace(BEAM, no_repeat=0)  # a second search of that engine may give other results
        found[languages] = engine.n_best(TEXTS, once)
        assert_same(found[languages], translator.n_best(TEXTS, once))
    one, other = ([hypotheses[0].score for hypotheses in both] for both in found.values())
    assert one != other


PRECISIONS = pytest.mark.parametrize("precision", ["float16", "bfloat16", "int8"])


@PRECISIONS
def test_other_precisions_take_less_room(taught: Translator, tmp_path: Path, precision: str) -> None:
    for name in ("float32", precision):
        exported(taught, tmp_path / name, name)
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("float32", precision)]
    assert sizes[1] < (0.5 if precision == "int8" else 0.6) * sizes[0]


@PRECISIONS
def test_an_export_to_another_precision_leaves_the_model_unchanged(
    taught: Translator, tmp_path: Path, precision: str
) -> None:
    before = {name: weight.clone() for name, weight in taught.model.named_parameters()}
    exported(taught, tmp_path / precision, precision)
    for name, weight in taught.model.named_parameters():
        torch.testing.assert_close(weight, before[name], rtol=0, atol=0)


@PRECISIONS
def test_rounded_weights_give_nearly_the_same_probabilities(taught: Translator, tmp_path: Path, precision: str) -> None:
    pieces = [[taught.source_tokenizer.piece(id) for id in ids] for ids in taught.source_tokenizer.encode_all(TEXTS)]
    probabilities = []
    for name in ("float32", precision):
        exported(taught, tmp_path / name, name)
        # The rounded weights, but float32 arithmetic, because int8 arithmetic depends on the processor's instructions.
        engine = ctranslate2.Translator(str(tmp_path / name), compute_type="float32")
        scored = engine.score_batch(pieces, pieces)
        probabilities.append(torch.tensor([p for sentence in scored for p in sentence.log_probs]))
    assert 0 < (probabilities[0] - probabilities[1]).abs().mean() < 0.05


@PRECISIONS
def test_an_export_of_another_precision_translates_every_line(
    taught: Translator, tmp_path: Path, precision: str
) -> None:
    engine = exported(taught, tmp_path / precision, precision)
    hypotheses = engine.n_best(TEXTS)
    assert len(hypotheses) == len(TEXTS)
    assert all(math.isfinite(best.score) and best.score <= 0 for best, *_ in hypotheses)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"decoder__cross_attention": None}, "model.decoder.cross_attention=null"),
        ({"positions": "alibi"}, "model.positions=alibi"),
        ({"encoder__self_attention__score": "additive"}, "model.encoder.self_attention.score=additive"),
        ({"decoder__cross_attention__score": "concat"}, "model.decoder.cross_attention.score=concat"),
        ({"decoder__cross_attention__heads": 4}, "model.decoder.cross_attention.heads=4 beside 3"),
        ({"decoder__self_attention__value_dim": 7}, "model.decoder.self_attention with head_dim 8 and value_dim 7"),
    ],
    ids=str,
)
def test_what_the_engine_cannot_express_is_refused_and_nothing_written(
    build: Build, tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValueError, match="cannot be exported to CTranslate2: ") as caught:
        exported(build(**changes), tmp_path / "engine")
    assert str(caught.value).startswith(reason)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"method": "sampling"}, "--method sampling is not for an export"),
        ({"beam": 1, "patience": 2.0}, "--patience 2 needs a --beam above 1 with an export"),
    ],
    ids=str,
)
def test_searches_that_the_engine_does_otherwise_are_refused(
    taught: Translator, tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    engine = exported(taught, tmp_path / "engine")
    with pytest.raises(ValueError, match=f"^{reason}"):
        engine.translate(["ja"], replace(BEAM, **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "cpu:0"])
def test_a_device_that_is_not_there_is_refused(taught: Translator, tmp_path: Path, device: str) -> None:
    exported(taught, tmp_path / "engine")
    with pytest.raises(ValueError, match=f"--device {device}"):
        load(tmp_path / "engine", device, 1)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("model.bin", b"decoder/layer_norm/gamma", b"decoder/layer_norm/omega"),
        ("model.bin", b"TransformerSpec", b"no such model.."),
        ("config.json", b'"add_source_eos": true', b'"add_source_eos": "yes"'),
        ("shared_vocabulary.json", b'"', b"'"),
        ("shared_vocabulary.json", b'",', b'?",'),
        ("shared_vocabulary.json", b'"ja"', b'"?"'),
    ],
)
def test_the_engines_errors_about_altered_files_are_one_line(
    taught: Translator, tmp_path: Path, name: str, old: bytes, new: bytes
) -> None:
    folder = tmp_path / "engine"
    exported(taught, folder)
    content = (folder / name).read_bytes()
    assert old in content
    (folder / name).write_bytes(content.replace(old, new))
    manifest = json.loads((folder / EXPORT_MANIFEST).read_text(encoding="utf-8"))
    manifest["files"][name] = sha256(folder / name)  # as an attacker would
    (folder / EXPORT_MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(str(folder))) as caught:
        load(folder, "cpu", 1).translate(["ja"])
    assert "\n" not in str(caught.value)


def test_an_export_to_another_program_says_which_ones_translate(taught: Translator, tmp_path: Path) -> None:
    export(taught, ExportSettings("huggingface", None, str(tmp_path / "hub")))
    with pytest.raises(ValueError, match="hub is an export to huggingface, which cannot translate here: use one to"):
        load(tmp_path / "hub")


@pytest.mark.skipif("PARITY_RUN" not in os.environ, reason="PARITY_RUN names no run to compare on 1,000 sentences")
def test_a_thousand_sentences_are_translated_the_same(tmp_path: Path) -> None:
    """PARITY_RUN=runs/… pytest -rP tests/tools/export -k thousand, for a run on the bundled corpus."""
    translator = Translator.load(os.environ["PARITY_RUN"])
    texts = [line for split in ("test", "validation") for line in read_lines(TOY / f"{split}.de")]
    found, expected = exported(translator, tmp_path / "engine").n_best(texts), translator.n_best(texts)
    others = [
        line for line, (theirs, ours) in enumerate(zip(found, expected, strict=True)) if theirs[0].text != ours[0].text
    ]
    difference = max(abs(theirs[0].score - ours[0].score) for theirs, ours in zip(found, expected, strict=True))
    lists = sum(
        [h.pieces for h in theirs] != [h.pieces for h in ours] for theirs, ours in zip(found, expected, strict=True)
    )
    print(f"of {len(texts)} sentences {len(others)} are translated otherwise and {lists} have another list of 5 best;")
    print(f"scores differ by {difference:.1e} at most")
    assert len(texts) == 1000
    for line in others:
        # A tie: our best one is as good.
        assert found[line][0].score == pytest.approx(expected[line][0].score, abs=1e-5)
    assert difference < 1e-5


@pytest.mark.parametrize("penalty", [1.0, 1.8])
def test_the_page_shows_how_an_export_translates_without_this_project(
    taught: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, penalty: float
) -> None:
    taught = copy(taught)
    taught.defaults = Defaults(length_penalty=penalty)
    exported(taught, tmp_path / "engine")
    monkeypatch.chdir(tmp_path)
    [(_, printed, _)] = play("export.md", "CTranslate2 from Python")
    assert printed.splitlines() == taught.translate(["der kleine Hund läuft schnell", "ein Haus"])
