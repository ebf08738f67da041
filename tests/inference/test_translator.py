"""The translator: order and count of lines, batches against single sentences, long lines, files kept and refused."""

import json
import math
import os
import pickle
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from copy import copy, deepcopy
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import yaml

from tests.cases import others_long
from tests.factories import model_dict, tokenizer_settings
from tests.scripts.running import Run
from transformer import ModelConfig, Transformer, Translator
from transformer.config import from_dict
from transformer.data.tokenizer import Tokenizer, train_tokenizer
from transformer.inference import model_file as checkpoint
from transformer.inference.ensemble import Ensemble
from transformer.inference.long_text import encode_sentences, split_sentences
from transformer.inference.parts import EMPTY, Translation
from transformer.inference.settings import Defaults, InferenceSettings, SearchSettings
from transformer.inference.translator import BEAM
from transformer.model.eval_mode import eval_mode

# An untrained model writes until the limit: it is low in tests that are not about it.
SOON = replace(BEAM, length_ratio=1.0, length_extra=3)
TEXTS = ["ein Haus", "der kleine Hund läuft schnell", "", "ja", "wir gehen in den Park, weil die Sonne scheint", " "]


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.manual_seed(1)
    settings = tokenizer_settings("bpe", 60)
    tokenizer = train_tokenizer(TEXTS * 3, settings)
    config = from_dict(ModelConfig, model_dict(source_vocab_size=60, target_vocab_size=60, max_length=32), "model")
    return Translator(Transformer(config).eval(), (tokenizer, tokenizer), ("de", "en"))


def test_lines_keep_their_order_and_count_and_empty_ones_stay_empty(translator: Translator) -> None:
    translations = translator.translate(TEXTS)
    assert len(translations) == len(TEXTS)
    assert [bool(text) for text in translations] == [True, True, False, True, True, False]
    assert translator.translate(TEXTS[::-1]) == translations[::-1]
    assert translator.translate([]) == []


@pytest.mark.parametrize("kind", others_long(["one", "ensemble", "copy"]))
@pytest.mark.parametrize("least", [0, 5])
def test_greedy_search_without_scores_finds_the_same(translator: Translator, kind: str, least: int) -> None:
    search = replace(SOON, method="greedy", min_length=least, length_extra=8)
    chosen = {"one": translator, "ensemble": Ensemble([translator, translator]), "copy": copy(translator)}[kind]
    scored = chosen.n_best(TEXTS, search)
    without = copy(chosen)
    without.greedy_scores = False
    found = without.n_best(TEXTS, search)
    assert [[one.pieces for one in row] for row in found] == [[one.pieces for one in row] for row in scored]
    assert chosen.translate(TEXTS, search) == [row[0].text for row in scored]
    assert all(math.isnan(row[0].score) and math.isnan(row[0].log_probability) for row in found if row[0].pieces)
    assert not any(math.isnan(row[0].score) for row in scored)
    for method in ("beam", "sampling"):
        other = replace(search, method=method)  # type: ignore[arg-type]
        assert without.n_best(TEXTS, other) == chosen.n_best(TEXTS, other)


@pytest.mark.long
def test_one_text_gives_one_translation_as_a_list_of_it_gives_a_list(translator: Translator) -> None:
    for text in TEXTS:
        assert [translator.translate(text, SOON)] == translator.translate([text], SOON)
        assert [translator.n_best(text, SOON)] == translator.n_best([text], SOON)


def test_a_gpu_translates_larger_batches_one_after_another(translator: Translator) -> None:
    """Precision is set for the whole process: several threads would leave each other's value."""
    seen: list[tuple[threading.Thread, int]] = []

    class OnGPU(Translator):
        device = torch.device("cuda")

        def _search(
            self, sources: list[list[int]], lines: list[int], settings: SearchSettings
        ) -> list[list[Translation]]:
            seen.append((threading.current_thread(), len(sources) * len(sources[0])))
            return [[EMPTY] for _ in sources]

    OnGPU(translator.model, translator.tokenizers, translator.languages).translate(["wir gehen"] * 5000)
    assert len(seen) > 1
    assert {thread for thread, _ in seen} == {threading.current_thread()}
    assert 4096 < max(tokens for _, tokens in seen) <= 8192


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_a_batch_gives_what_its_sentences_give_alone(translator: Translator, method: str) -> None:
    search = replace(SOON, method=method)
    together = translator.n_best(TEXTS, search)
    for text, hypotheses in zip(TEXTS, together, strict=True):
        [alone] = translator.n_best([text], search)
        assert [h.text for h in alone] == [h.text for h in hypotheses]
        assert [h.score for h in alone] == pytest.approx([h.score for h in hypotheses], abs=1e-5)
    tiny_batches = translator.n_best(TEXTS, search, batch_tokens=1)
    assert [[h.text for h in found] for found in tiny_batches] == [[h.text for h in found] for found in together]


@pytest.mark.parametrize("method", ["greedy", "beam", "sampling"])
def test_encoded_sources_are_translated_as_their_texts_are(translator: Translator, method: str) -> None:
    search, lines = replace(SOON, method=method), range(11, 11 + len(TEXTS))
    ids = translator.source_tokenizer.encode_all(TEXTS)
    assert translator.n_best_ids(ids, search, line_numbers=lines) == translator.n_best(
        TEXTS, search, line_numbers=lines
    )


@pytest.mark.parametrize("dtype", others_long([torch.float64, torch.bfloat16]))
def test_torch_defaults_change_neither_a_loaded_model_nor_its_translations(
    translator: Translator, tmp_path: Path, dtype: torch.dtype
) -> None:
    config = replace(translator.model.config, positions="alibi")
    Translator(Transformer(config), translator.tokenizers, translator.languages).save(tmp_path / "model.safetensors")

    def found() -> list[list[Translation]]:
        loaded = Translator.load(tmp_path / "model.safetensors")
        # A single text is translated in this thread, and `torch.device` only changes one thread.
        return [loaded.n_best(TEXTS[1], replace(SOON, method=method)) for method in ("greedy", "beam", "sampling")]

    expected = found()
    torch.set_default_dtype(dtype)
    try:
        with torch.device("meta"):  # instead of a GPU, which may be missing: nothing can be computed on it
            assert found() == expected
    finally:
        torch.set_default_dtype(torch.float32)


def test_loading_leaves_the_random_numbers_of_torch_as_they_were(translator: Translator, tmp_path: Path) -> None:
    translator.save(tmp_path / "model.safetensors")
    before = torch.get_rng_state()
    Translator.load(tmp_path / "model.safetensors")
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("method", others_long(["beam", "greedy"]))
def test_batches_side_by_side_give_what_one_after_another_gives(translator: Translator, method: str) -> None:
    search, before = replace(SOON, method=method), torch.get_num_threads()
    wide = Translator(
        Transformer(replace(translator.model.config, dropout=0.5)), translator.tokenizers, translator.languages
    )
    wide.model.load_state_dict(translator.model.state_dict())
    wide.model.train()  # as during training: translating uses no dropout, and training continues unchanged
    try:
        torch.set_num_threads(1)
        alone = wide.n_best(TEXTS * 4, search, batch_tokens=40)
        torch.set_num_threads(3)
        together = [wide.n_best(TEXTS * 4, search, batch_tokens=tokens) for tokens in (40, 10**9)]
        assert torch.get_num_threads() == 3
        assert wide.model.training
        wide.model.output.weight.data.fill_(torch.nan)
        with pytest.raises(ValueError, match="scores are not finite"):
            wide.n_best(TEXTS * 4, search)
        assert torch.get_num_threads() == 3
        assert wide.model.training
    finally:
        torch.set_num_threads(before)
    for found in together:
        for ours, theirs in zip(found, alone, strict=True):
            assert [h.text for h in ours] == [h.text for h in theirs]
            assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-5)


def test_scores_are_those_of_a_teacher_forced_pass(translator: Translator) -> None:
    best = translator.n_best([TEXTS[1]])[0][0]
    ids = [translator.target_tokenizer._processor.PieceToId(piece) for piece in best.pieces]
    source = torch.tensor([[*translator.source_tokenizer.encode(TEXTS[1]), 3]])
    logits = translator.model(source, torch.tensor([[2, *ids]]))
    total = logits.log_softmax(-1)[0].gather(1, torch.tensor([[*ids, 3]]).T).sum().item()
    assert best.log_probability == pytest.approx(total, abs=1e-3)
    assert best.score == pytest.approx(total / (len(ids) + 1), abs=1e-4)


def test_a_line_too_long_is_named_and_split_or_refused(
    translator: Translator, caplog: pytest.LogCaptureFixture
) -> None:
    long = " ".join(["wir gehen in den Park."] * 20)
    assert all(translator.translate(["ja", long]))
    assert "line 2 has" in caplog.text
    assert "more than the 31 this model allows" in caplog.text
    with pytest.raises(ValueError, match=r"^line 2 has"):
        translator.translate(["ja", long], split_lines="never")
    of_file = copy(translator)
    of_file.lines_of = "german.txt"
    with pytest.raises(ValueError, match=r"^german\.txt line 2 has"):
        of_file.translate(["ja", long], split_lines="never")
    of_file.translate(["жзд"])
    assert any(one.startswith("german.txt line 1: not in the model's vocabulary: ж") for one in caplog.messages)
    translator.warns_of_lines = False
    silent, count = copy(translator), len(caplog.messages)
    silent.warns_of_sources = False
    assert silent.translate("щ", SOON) == translator.translate("щ", SOON)
    assert len(caplog.messages) == count + 1  # one notice more, for the other line
    for text in (long, "wir 3.5 gehen z.B. in… den Park. " * 12):
        pieces = encode_sentences(split_sentences(text), translator.source_tokenizer, 31)
        assert all(0 < len(piece) <= 31 for piece in pieces)
        assert [id for piece in pieces for id in piece] == translator.source_tokenizer.encode(text)
    assert translator.translate(["x" * 2000])[0]
    with pytest.raises(ValueError, match=r"search.min_length=32 is more than the model's 32 positions allow"):
        translator.translate(["ja"], replace(BEAM, min_length=32))


def test_both_directions_tag_every_piece_and_search_nothing_without_text() -> None:
    settings = tokenizer_settings("bpe", 62)
    tokenizer = train_tokenizer(TEXTS * 3, settings, languages=("de", "en"))
    config = from_dict(ModelConfig, model_dict(source_vocab_size=62, target_vocab_size=62, max_length=32), "model")
    translator = Translator(Transformer(config).eval(), (tokenizer, tokenizer), ("de", "en"))
    [tag] = translator.source_tokenizer.prefix
    # A sentence that alone is too long, at the beginning; one; a word of more tokens than there are places.
    for text in ("wir gehen in den Park, " * 20, "wir 3.5 gehen z.B. in… den Park. " * 12, "x" * 2000):
        pieces = encode_sentences(split_sentences(text), translator.source_tokenizer, 31)
        assert all(piece[0] == tag and 1 < len(piece) <= 31 for piece in pieces)
        assert [id for piece in pieces for id in piece[1:]] == translator.source_tokenizer.encode(text)[1:]
    assert translator.translate(["\u200b", " ", ""]) == ["", "", ""]


def test_a_saved_translator_loads_alone_and_translates_the_same(translator: Translator, tmp_path: Path) -> None:
    path = tmp_path / "leer" / "t.safetensors"
    translator.save(path)
    loaded = Translator.load(path)
    assert loaded.translate(TEXTS) == translator.translate(TEXTS)
    assert (loaded.source_language, loaded.target_language) == ("de", "en")
    assert list(path.parent.iterdir()) == [path]


def test_the_same_translator_is_the_same_file_byte_by_byte(translator: Translator, tmp_path: Path) -> None:
    for name in range(12):  # safetensors writes its metadata in random order
        translator.save(tmp_path / f"{name}.safetensors")
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def refusal(path: Path) -> str:
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        Translator.load(path)
    said = str(caught.value)
    assert "\n" not in said
    assert str(path) in said
    del caught  # it holds the file's data, and Windows does not let anybody write a mapped file
    return said


def test_files_that_are_missing_cut_altered_or_foreign_are_refused_in_one_line(
    translator: Translator, tmp_path: Path
) -> None:
    path = tmp_path / "t.safetensors"
    assert "no checkpoint at" in refusal(path)
    translator.save(path)
    whole = path.read_bytes()
    for length in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        refusal(path)
    for place in range(8, len(whole), len(whole) // 40):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        refusal(path)
    safetensors.torch.save_file({"x": torch.zeros(3)}, path)
    assert "does not describe a translator" in refusal(path)
    path.write_text("no checkpoint at all", encoding="utf-8")
    refusal(path)
    (page := tmp_path / "translator.html").write_text("<!doctype html>", encoding="utf-8")
    assert "give the run that it was exported from" in refusal(page)


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {Bomb.marker}",)

    marker = ""


def test_a_checkpoint_with_code_in_it_is_refused_and_its_code_not_run(tmp_path: Path) -> None:
    Bomb.marker = str(tmp_path / "ran")
    path = tmp_path / "bad.ckpt"
    torch.save({"state_dict": {}, "hyper_parameters": Bomb()}, path)
    assert "would run code" in refusal(path)
    path.write_bytes(pickle.dumps(Bomb()))
    refusal(path)
    assert not (tmp_path / "ran").exists()


def test_compressed_and_overlong_archives_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.ckpt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10_000_000))
    assert "declares more data than it holds" in refusal(path)


def test_a_description_that_does_not_fit_its_tensors_is_refused(translator: Translator, tmp_path: Path) -> None:
    from transformer.inference import model_file as files

    path = tmp_path / "t.safetensors"
    for change in ({"dim": 10**9}, {"encoder": {"layers": 10**9}}, {"_target_": "os.system"}, {"norm": "post"}):
        tokenizers = (translator.source_tokenizer, translator.target_tokenizer)
        plain = files.describe(translator.model, tokenizers, ("de", "en"))
        for key, value in change.items():
            if isinstance(value, dict):
                plain["model"][key].update(value)
            else:
                plain["model"][key] = value
        content = files.tensors(translator.model, tokenizers)
        about = {"translator": json.dumps(plain), "sha256": files.digest(plain, content)}
        safetensors.torch.save_file(content, path, about)
        refusal(path)


@pytest.mark.parametrize("language", ["de;touch x", "d\ue000", "", "x" * 65])
def test_a_language_of_a_file_is_named_as_settings_name_it(
    translator: Translator, tmp_path: Path, language: str
) -> None:
    from transformer.inference import model_file as files

    tokenizers, path = (translator.source_tokenizer, translator.target_tokenizer), tmp_path / "t.safetensors"
    plain = files.describe(translator.model, tokenizers, ("de", "en")) | {"target_language": language}
    content = files.tensors(translator.model, tokenizers)
    about = {"translator": json.dumps(plain), "sha256": files.digest(plain, content)}
    safetensors.torch.save_file(content, path, about)
    assert "must be at most 64 letters, digits and .-_" in refusal(path)


@pytest.mark.parametrize("penalty", others_long([2.0, -1.0, 0.5]))
def test_a_model_searches_with_its_own_length_penalty_unless_another_is_given(
    translator: Translator, tmp_path: Path, penalty: float
) -> None:
    own = copy(translator)
    own.defaults = Defaults(length_penalty=penalty)
    own.save(tmp_path / "own.safetensors")
    loaded = Translator.load(tmp_path / "own.safetensors")
    found = loaded.n_best(TEXTS)
    assert found == loaded.n_best(TEXTS, replace(BEAM, length_penalty=penalty))
    for of_text in found:
        for one in of_text:
            assert one.score == pytest.approx(one.log_probability / (len(one.pieces) + 1) ** penalty)
    # Loaded too: a loaded translator searches with packed weights, which round scores differently.
    translator.save(tmp_path / "by_the_mean.safetensors")
    by_the_mean = Translator.load(tmp_path / "by_the_mean.safetensors")
    assert loaded.n_best(TEXTS, replace(BEAM, length_penalty=1.0)) == by_the_mean.n_best(TEXTS)
    assert Ensemble([loaded, translator]).defaults.length_penalty == penalty


def test_a_translator_shows_what_it_translates(translator: Translator) -> None:
    size = sum(weight.numel() for weight in translator.model.parameters())
    assert repr(translator) == f"<Translator de → en, {size:,} parameters, on cpu>"


def test_python_defaults_are_those_of_the_command_line() -> None:
    from_yaml = yaml.safe_load(
        (Path(__file__).parents[2] / "configs" / "search" / "beam.yaml").read_text(encoding="utf-8")
    )
    assert from_yaml == asdict(BEAM)


def test_the_pieces_of_a_long_line_are_sampled_apart(translator: Translator) -> None:
    search = replace(BEAM, method="sampling", seed=3)
    line = "Wir gehen in den Park. " * 20
    first, second, *_ = pieces = encode_sentences(split_sentences(line), translator.source_tokenizer, 31)
    assert first == second
    [sampled] = translator.n_best([line], search, line_numbers=[7])
    [[alone]] = translator.n_best_ids([first], search, line_numbers=[7])
    assert sampled[0].text.startswith(alone.text)  # the first piece draws like a line of its own
    assert not sampled[0].text.startswith(f"{alone.text} {alone.text}")
    assert (
        translator.n_best([line], search, line_numbers=[7])
        == [sampled]
        != translator.n_best([line], search, line_numbers=[8])
    )
    assert len(pieces) > 2


def test_the_pieces_of_a_long_line_are_joined_as_the_language_joins_sentences(translator: Translator) -> None:
    line = "Wir gehen in den Park. " * 20
    [english] = translator.translate([line])
    chinese = Translator(translator.model, translator.tokenizers, ("de", "zh"))
    pieces = encode_sentences(split_sentences(line), translator.source_tokenizer, 31)
    texts = [one[0].text for one in translator.n_best_ids(pieces, BEAM)]
    assert [english, *chinese.translate([line])] == [" ".join(texts), "".join(texts)]


def test_a_model_without_room_for_a_text_beside_its_tag_is_named() -> None:
    tokenizer = train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", 62), ("de", "en"))
    tagged = Tokenizer(tokenizer.model, "bpe", target_language_tag="en")
    with pytest.raises(ValueError, match=r"a model of 1 positions has no room for a text"):
        encode_sentences(["wir"], tagged, 1)


def test_the_tag_of_a_language_counts_once_in_a_piece_of_a_long_sentence() -> None:
    tokenizer = train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", 62), ("de", "en"))
    tagged = Tokenizer(tokenizer.model, "bpe", target_language_tag="en")
    sentence = "wir gehen in den park " * 20
    expected = [[*tagged.prefix, *ids] for ids in encode_sentences([sentence], tokenizer, 30)]
    assert encode_sentences([sentence], tagged, 31) == expected


def test_the_samples_of_a_text_depend_only_on_its_number(translator: Translator) -> None:
    search = replace(SOON, method="sampling", seed=3)
    together = translator.n_best(TEXTS, search)
    for number, text in enumerate(TEXTS, 1):
        [alone] = translator.n_best([text], search, line_numbers=[number])
        assert alone[0].text == together[number - 1][0].text


def test_parts_of_a_model_that_are_trained_or_not_stay_so(translator: Translator) -> None:
    model = deepcopy(translator.model)
    model.train()
    model.encoder.eval()
    before = [part.training for part in model.modules()]
    with eval_mode(model):
        assert not any(part.training for part in model.modules())
    assert [part.training for part in model.modules()] == before
    assert len(set(before)) == 2


def test_texts_may_come_one_by_one(translator: Translator) -> None:
    expected = translator.translate(TEXTS, SOON)
    for texts in (iter(TEXTS), tuple(TEXTS), np.array(TEXTS)):
        assert translator.translate(texts, SOON) == expected


def test_several_threads_use_one_translator_and_a_process_can_be_sent_one(
    translator: Translator, tmp_path: Path
) -> None:
    translator.save(tmp_path / "model.safetensors")
    loaded = Translator.load(tmp_path / "model.safetensors")
    expected = loaded.translate(TEXTS, SOON)
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(lambda _: loaded.translate(TEXTS, SOON), range(8))] == [expected] * 8
    assert pickle.loads(pickle.dumps(loaded)).translate(TEXTS, SOON) == expected


# Here the tests do not check shapes and types.
MISTAKES = """
import sys
from transformer import Translator
from transformer.inference.ensemble import Ensemble
from transformer.inference.settings import SearchSettings
translator = Translator.load(sys.argv[1])
for mistake in sys.argv[2:]:
    try:
        eval(mistake)
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error, sep=": ")
"""
MESSAGES = {
    "translator.translate(['ja', None])": "TypeError: line 2 is no text but NoneType",
    "translator.translate(b'ja')": "TypeError: texts must be a text or several, not bytes",
    "translator.translate(None)": "TypeError: texts must be a text or several, not NoneType",
    "translator.show(['ja'])": "TypeError: text must be one text, not list",
    "translator.n_best('ja', line_numbers=7)": "TypeError: line_numbers must be a list of numbers, not int",
    "translator.translate('ja', batch_tokens=0)": "SettingError: batch_tokens=0 must be >= 1",
    "translator.translate('ja', batch_tokens='many')": "SettingError: batch_tokens=many must be a whole number",
    "translator.translate('ja', 'greedy')": "TypeError: search must be SearchSettings, as "
    "SearchSettings(method='greedy'), not 'greedy'",
    "translator.translate('ja', split_lines='Refuse')": "ValueError: split_lines=Refuse is not allowed; choose one of "
    "long, sentences, never",
    "translator.n_best(['ja', 'nein'], line_numbers=[7])": "ValueError: line_numbers must hold the numbers of "
    "2 texts, it holds 1",
    "translator.n_best_ids([[5]], line_numbers=[7, 8])": "ValueError: line_numbers must hold the numbers of "
    "1 texts, it holds 2",
    "translator.translate('\\ud800')": "ValueError: line 1 is no Unicode text: half of a surrogate pair "
    "stands alone in it",
    "Ensemble([translator, 'x'])": "TypeError: model 2 is no Translator but a str: Translator.load makes one of a file",
    "SearchSettings(method='Greedy')": "SettingError: method=Greedy is not allowed; did you mean greedy? choose one of "
    "greedy, beam, sampling",
    "SearchSettings(beam=0)": "SettingError: beam=0 must be >= 1 and <= 1000",
    "SearchSettings(beam=2.0)": "SettingError: beam=2.0 must be a whole number",
    "SearchSettings(temperature=0)": "SettingError: temperature=0.0 must be >= 0.001 and <= 1000",
    "SearchSettings(length_penalty=float('nan'))": "SettingError: length_penalty=nan must be a finite number",
    "SearchSettings(top_p=1.5)": "SettingError: top_p=1.5 must be > 0 and <= 1",
}


def test_a_search_takes_numpys_numbers_and_whole_numbers_for_others() -> None:
    settings = from_dict(SearchSettings, asdict(BEAM) | {"beam": np.int64(3), "length_penalty": np.float64(0.5)}, "")
    assert (settings.beam, settings.length_penalty) == (3, 0.5)
    assert type(from_dict(SearchSettings, asdict(BEAM) | {"temperature": 2}, "").temperature) is float


def test_mistakes_in_python_are_reported_too(translator: Translator, tmp_path: Path) -> None:
    (tmp_path / "mistakes.py").write_text(MISTAKES, encoding="utf-8")
    translator.save(tmp_path / "model.safetensors")
    done = Run(str(tmp_path / "mistakes.py"), str(tmp_path / "model.safetensors"), *MESSAGES, cwd=tmp_path).wait()
    assert done.stdout.splitlines() == list(MESSAGES.values()), done.stderr


def test_a_translator_that_could_not_be_loaded_is_not_saved(translator: Translator, tmp_path: Path) -> None:
    other = copy(translator)
    other.defaults = Defaults(length_penalty=20.0)
    with pytest.raises(ValueError, match=r"length_penalty=20\.0 must be >= -10 and <= 10"):
        other.save(tmp_path / "model.safetensors")
    bpe = translator.target_tokenizer
    other = Translator(translator.model, (bpe, Tokenizer(bpe.model, "word")), ("de", "en"))
    with pytest.raises(ValueError, match=r"the tokenizers are of two kinds, .* and word"):
        other.save(tmp_path / "model.safetensors")
    assert not any(tmp_path.iterdir())


def test_finetuning_may_change_dropout_and_add_tags_but_nothing_else(translator: Translator, tmp_path: Path) -> None:
    translator.save(tmp_path / "t.safetensors")
    saved, config = checkpoint.load(tmp_path / "t.safetensors"), translator.model.config
    wider = replace(config, dropout=0.3, source_vocab_size=62, target_vocab_size=62)
    model = saved.build_for_finetuning(wider)
    assert model.config == wider
    for name, weight in translator.model.named_parameters():
        torch.testing.assert_close(model.get_parameter(name)[: len(weight)], weight, rtol=0, atol=0)
    for other, said in (
        (replace(config, norm="post"), r"model\.norm=post \(saved: pre\): leave these settings out$"),
        (replace(config, decoder=replace(config.decoder, cross_attention=None)), r"model\.decoder\.cross_attention"),
    ):
        with pytest.raises(ValueError, match=rf"^the model of init_from= has other settings: {said}"):
            saved.build_for_finetuning(other)


@pytest.mark.parametrize(
    ("device", "precision", "message"),
    [
        ("gpu", "float32", "device=gpu is not allowed; choose one of auto, cpu, cuda"),
        ("cpu", "int8", "precision=int8 is not allowed; choose one of auto, float32"),
    ],
)
def test_an_unknown_device_or_precision_is_refused_with_the_settings(device: str, precision: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        from_dict(InferenceSettings, {"device": device, "precision": precision})


def test_a_text_without_a_letter_stays_as_it_is(translator: Translator) -> None:
    texts = ["123", "---", "...", "😀", "00:00:01,000 --> 00:00:04,000", "3.50 €", "١٢٣", "½ + ²", " 1\u00a0000 "]
    assert translator.translate(texts) == [text.strip() for text in texts]
    assert translator.translate("\u200b") == ""
    apart = " ".join(translator.translate(["Wir gehen.", "Ja."]))
    assert translator.translate("Wir gehen. 123. Ja. 😀", split_lines="sentences") == apart.replace(
        *(apart, f"{translator.translate('Wir gehen.')} 123. {translator.translate('Ja.')} 😀")
    )
    translator.defaults = Defaults(keeps_letterless=False)
    assert all(one != text for one, text in zip(translator.translate(texts[:4]), texts, strict=False))
