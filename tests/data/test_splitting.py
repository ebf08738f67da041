"""A corpus in one file: its columns are read, validation and test are split off, and no test sentence is in train."""

import csv
import gzip
import io
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.data.corpora import settings, write
from tests.factories import data_settings, tokenizer_settings
from transformer.data import tatoeba
from transformer.data.config import SPLITS, DataSettings
from transformer.data.datamodule import TranslationData
from transformer.data.formats import heading_notes
from transformer.data.splitting import (
    LEFT_OUT,
    MAX_GROUP,
    TRAIN,
    assign_splits,
    comparable,
    notes_of_cut,
    with_splits,
)

Pair = tuple[str, str]


def sentences(count: int) -> list[Pair]:
    """Pairs without equal sentences on either side."""
    return [(f"Satz {letters(number)}", f"Sentence {letters(number)} of it") for number in range(count)]


def letters(number: int) -> str:
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def whole(folder: Path, name: str, **changes: object) -> DataSettings:
    splits = dict.fromkeys(("train", "validation", "test"))
    return settings(folder, **({**splits, "pairs": str(folder / name), "split": [0.1, 0.2]} | changes))


def read_all(corpus: DataSettings) -> dict[str, list[Pair]]:
    cut = with_splits(corpus)
    return {split: list(cut.read(split)) for split in SPLITS}


def as_csv(rows: list[list[str]]) -> str:
    file = io.StringIO()
    csv.writer(file).writerows(rows)
    return file.getvalue()


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("name", "form"), [("x.txt", "\t".join), ("x.tsv", "\t".join), ("x.csv", lambda cells: as_csv([cells]).strip())]
)
def test_every_form_of_one_file_gives_its_pairs(
    tmp_path: Path, name: str, form: Callable[[list[str]], str], mark: str, ending: str
) -> None:
    pairs = [*sentences(100), ('Er sagt: "Ja, doch."', 'He says: "Yes, indeed."')]
    content = mark + "".join(form([target, source, "CC-BY", "#1"]) + "\r\n" for source, target in pairs)
    path = tmp_path / f"{name}{ending}"
    path.write_bytes(gzip.compress(content.encode()) if ending else content.encode())
    splits = read_all(whole(tmp_path, path.name, columns=[2, 1]))
    assert sorted(pair for split in splits.values() for pair in split) == sorted(pairs)
    assert all(splits.values())


def test_a_cell_of_a_csv_over_two_lines_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(
        "de,en\n" + as_csv([["eins\nzwei", "one\r\ntwo"], ["drei", "three"]]), encoding="utf-8"
    )
    corpus = settings(tmp_path, **dict.fromkeys(("train", "validation", "test"), str(tmp_path / "x.csv")))
    assert list(corpus.read("train")) == [("eins zwei", "one two"), ("drei", "three")]


def test_the_first_pair_of_a_table_is_shown(tmp_path: Path) -> None:
    lines = ["ID\tQuelle\tZiel", *(f"{n}\t{source}\t{target}" for n, (source, target) in enumerate(sentences(100)))]
    write(tmp_path, "x.tsv", lines)
    corpus = whole(tmp_path, "x.tsv", columns=[2, 3])
    assert notes_of_cut(with_splits(corpus), corpus)[1] == "its first pair: Quelle | Ziel"
    assert notes_of_cut(with_splits(corpus), with_splits(corpus)) == []


@pytest.mark.parametrize(
    ("first", "is_reported"),
    [
        ("source\ttarget", True),
        ("TGT\tSrc", True),
        ("deu\teng", True),
        ("Quelle\tZiel", True),
        ("Translation\tOriginal", True),
        ("de\ten", False),  # names the languages, and is no pair
        ("German\tEnglish", False),
        ("source\tsource", False),
        ("Quelle\tsource", False),  # a pair of a glossary
    ],
)
def test_a_heading_that_is_read_as_a_pair_is_reported_before_training(
    tmp_path: Path, first: str, is_reported: bool
) -> None:
    table = write(tmp_path, "x.tsv", [first, *map("\t".join, sentences(200))])
    corpus = data_settings(pairs=str(table), cache=str(tmp_path / "cache"), directions=["de-en", "en-de"])
    said = f"{table}: the first line, {first.replace(chr(9), ' | ')}, looks like a heading, not a pair"
    notes = TranslationData(corpus, tokenizer_settings("word", 400), seed=1).notes
    assert [note.startswith(said) for note in notes if said in note] == [True] * is_reported
    assert any(line.startswith("its first pair: ") for line in notes)


def test_a_heading_in_two_files_is_reported_for_each_split(tmp_path: Path) -> None:
    for name, (source, target) in {"train": ("German", "English"), "test": ("Haus", "house")}.items():
        write(tmp_path, f"{name}.de", [source, "Hund"])
        write(tmp_path, f"{name}.en", [target, "dog"])
    splits = {"train": "train", "validation": "test", "test": "test"}
    corpus = data_settings(**{split: str(tmp_path / prefix) for split, prefix in splits.items()})
    files = f"{tmp_path / 'train.de'} and {tmp_path / 'train.en'}"
    assert heading_notes(corpus) == [
        f"{files}: the first line, German | English, looks like a heading, not a pair: delete it"
    ]


def test_columns_that_a_file_has_not_are_refused_with_their_line(tmp_path: Path) -> None:
    write(tmp_path, "x.tsv", ["a\tb\tc", "a\tb"])
    for columns, message in (
        ([1, 3], r"line 2 has 2 tab-separated columns, data.columns=\[1, 3\]; correct the line"),
        (None, "line 1 has 3 tab-separated columns"),
    ):
        with pytest.raises(ValueError, match=message):
            with_splits(whole(tmp_path, "x.tsv", columns=columns))
    (tmp_path / "x.csv").write_text('a,b\n"c,d\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.csv line 2 is not CSV"):
        with_splits(whole(tmp_path, "x.csv"))
    with pytest.raises(ValueError, match=r"data.columns=\[1, 1\] must be two columns"):
        whole(tmp_path, "x.csv", columns=[1, 1])


def test_two_files_without_validation_and_test_are_cut_too(tmp_path: Path) -> None:
    pairs = sentences(100)
    (
        write(tmp_path, "x.de", [source for source, _ in pairs]),
        write(tmp_path, "x.en.gz", [target for _, target in pairs]),
    )
    alone = whole(tmp_path, "", pairs=None, train=str(tmp_path / "x"))
    assert read_all(alone) == read_all(whole(tmp_path, "x"))
    assert {split: len(lines) > 0 for split, lines in read_all(alone).items()} == dict.fromkeys(SPLITS, True)


def test_both_directions_have_the_same_cut(tmp_path: Path) -> None:
    write(tmp_path, "x.tsv", ["\t".join(pair) for pair in sentences(100)])
    there = read_all(whole(tmp_path, "x.tsv"))
    back = read_all(whole(tmp_path, "x.tsv", columns=[2, 1], source_language="en", target_language="de"))
    assert back == {split: [pair[::-1] for pair in pairs] for split, pairs in there.items()}
    assert len(list((tmp_path / "cache").glob("splits-*/train.de"))) == 1


def test_a_table_whose_columns_are_not_named_is_refused_after_a_cut_too(tmp_path: Path) -> None:
    write(tmp_path, "x.tsv", ["\t".join((*pair, "by me")) for pair in sentences(100)])
    with_splits(whole(tmp_path, "x.tsv", columns=[1, 2]))
    with pytest.raises(ValueError, match="line 1 has 3 tab-separated columns, a pair needs 2"):
        with_splits(whole(tmp_path, "x.tsv"))


def cut_of(corpus: DataSettings) -> Path:
    return Path(str(with_splits(corpus).train)).parent


@pytest.mark.parametrize("more", [{}, {"train": "", "pairs": None, "fold": [1, 2], "validation": "", "test": ""}])
def test_columns_that_are_typed_or_named_by_the_first_line_have_the_same_cut(
    tmp_path: Path, more: dict[str, object]
) -> None:
    pairs = sentences(100)
    lines = ["id\ten\tde", *(f"{number}\t{target}\t{source}" for number, (source, target) in enumerate(pairs))]
    table = str(write(tmp_path, "x.tsv", lines))
    paths = {split: table for split in SPLITS if split in more}
    named, typed, other = (whole(tmp_path, "x.tsv", **more | paths, columns=c) for c in (None, [3, 2], [2, 3]))
    assert cut_of(named) == cut_of(typed) != cut_of(other)
    assert set(with_splits(named).read("train")) < set(pairs)
    assert set(with_splits(other).read("train")) < {pair[::-1] for pair in pairs}


def test_both_directions_of_two_files_have_the_same_cut(tmp_path: Path) -> None:
    for language, texts in zip(("de", "en"), zip(*sentences(100), strict=True), strict=True):
        write(tmp_path, f"x.{language}", list(texts))
    there, back = whole(tmp_path, "x"), whole(tmp_path, "x", source_language="en", target_language="de", columns=[2, 1])
    assert cut_of(there) == cut_of(back)


def test_nothing_of_the_test_is_in_train_on_either_side_nor_written_otherwise() -> None:
    chance = random.Random(1)
    words = [f"{letters(number)}." for number in range(400)]
    pairs = [(chance.choice(words), chance.choice(words)) for _ in range(300)]
    written = [str, str.upper, lambda text: f"„{text}“!", lambda text: text.replace("", " ")]
    pairs = [(chance.choice(written)(source), chance.choice(written)(target)) for source, target in pairs]
    splits = assign_splits(pairs, ("de", "en"), (0.2, 0.3)).tolist()
    for side in (0, 1):
        held: dict[str, set[int]] = {}
        for pair, split in zip(pairs, splits, strict=True):
            held.setdefault(comparable(pair[side]), set()).add(split)
        assert all(len(found) == 1 for found in held.values())
    assert set(splits) == {0, 1, 2}


def test_sentences_are_compared_without_case_marks_spaces_width_and_numbers() -> None:
    assert comparable("Am 3. Mai，ＯＫ?") == comparable("am 17 MAI ok") == "am0maiok"
    assert comparable("Große Straße") == comparable("GROSSE STRASSE")
    assert comparable("नमस्ते") != comparable("नमसत")
    assert comparable("?! …") == ""


def test_a_large_group_and_pairs_with_an_empty_side_stay_in_train() -> None:
    greetings = [("Hallo!", f"Hello {letters(number)}") for number in range(MAX_GROUP + 1)]
    empty = [("", f"Nothing {letters(number)}") for number in range(50)]
    assert set(assign_splits([*greetings, *empty], ("de", "en"), (0.4, 0.4)).tolist()) == {TRAIN}
    assert TRAIN not in assign_splits(greetings[:MAX_GROUP], ("de", "en"), (0.5, 0.5))


@pytest.mark.parametrize("empty", [0, 1])
def test_a_pair_with_an_empty_side_stays_in_train_though_few_others_have_one(empty: int) -> None:
    # Too few for a large group, which would stay in train in any case.
    pairs = [("…", f"Sentence {letters(number)}")[:: -1 if empty else 1] for number in range(MAX_GROUP)]
    assert set(assign_splits(pairs, ("de", "en"), (0.5, 0.5)).tolist()) == {TRAIN}


def test_lines_that_are_added_or_moved_leave_the_others_where_they_were() -> None:
    pairs, languages, shares = sentences(500), ("de", "en"), (0.1, 0.1)
    before = dict(zip(pairs, assign_splits(pairs, languages, shares).tolist(), strict=True))
    more = [("Neu eins", "New one"), *random.Random(2).sample(pairs, 500), ("Neu zwei", "New two")]
    after = dict(zip(more, assign_splits(more, languages, shares).tolist(), strict=True))
    assert {pair: after[pair] for pair in pairs} == before


def test_the_shares_are_those_asked_for() -> None:
    counts = [assign_splits(sentences(5000), ("de", "en"), (0.1, 0.3)).tolist().count(split) for split in range(3)]
    assert [count / 5000 for count in counts] == pytest.approx([0.6, 0.1, 0.3], abs=0.03)


def test_a_corpus_too_small_for_its_shares_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    write(tmp_path, "x.tsv", ["\t".join(pair) for pair in sentences(3)])
    with pytest.raises(ValueError, match=r"too small for data.split=\[0.01, 0.01\].*give data.train="):
        with_splits(whole(tmp_path, "x.tsv", split=[0.01, 0.01]))
    assert not list((tmp_path / "cache").glob("*/train.de"))


@pytest.mark.parametrize(("given", "is_larger"), [(0.001, True), (0.49, False)])
def test_the_advice_for_a_small_corpus_is_of_shares_that_help(tmp_path: Path, given: float, is_larger: bool) -> None:
    write(tmp_path, "x.tsv", ["\t".join(pair) for pair in sentences(60 if is_larger else 20)])
    with pytest.raises(ValueError, match=r"choose other shares") as caught:
        with_splits(whole(tmp_path, "x.tsv", split=[given, given]))
    share = float(re.findall(r"for example data\.split=\[([\d.]+),", str(caught.value))[0])
    assert (share > given) == is_larger
    assert with_splits(whole(tmp_path, "x.tsv", split=[share, share])).test


def test_shares_that_cannot_help_are_not_advised(tmp_path: Path) -> None:
    write(tmp_path, "x.tsv", [f"Hallo\tHello {letters(number)}" for number in range(60)])
    with pytest.raises(
        ValueError,
        match=r"share their sentences \(all numbers count as equal\): give data\.train=",
    ):
        with_splits(whole(tmp_path, "x.tsv"))


def test_missing_splits_are_named_at_once_with_an_example(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("train", "validation", "test"))
    for given, missing in (
        ({}, "data.train, data.validation, data.test"),
        ({"validation": "v"}, "data.train, data.test"),
        ({"train": "t", "validation": "v"}, "data.test"),
    ):
        with pytest.raises(ValueError, match=rf"^not set: {missing}; give data.train=my/train .* data.pairs="):
            settings(tmp_path, **(nothing | given))
    with pytest.raises(ValueError, match=r"leave out data.test"):
        settings(tmp_path, **(nothing | {"pairs": "x.tsv", "test": "y"}))


def test_a_file_of_manythings_says_its_language_and_columns() -> None:
    assert [tatoeba.file_language(file) for file in ("cmn.txt", "my/deu-eng.txt.gz", "gsw.txt")] == ["zh", "de", "gsw"]
    assert tatoeba.source_language("zh", "cmn.txt") == "en"
    assert tatoeba.source_language("en", "cmn.txt") == "zh"
    assert (tatoeba.columns("en"), tatoeba.columns("zh")) == ([1, 2], [2, 1])
    assert (tatoeba.source_language("eng", "epo.txt"), tatoeba.columns("en-GB")) == ("eo", [1, 2])
    for file in ("My pairs.txt", "my.txt"):
        with pytest.raises(ValueError, match=r"add data\.target_language=CODE"):
            tatoeba.file_language(file)
    with pytest.raises(ValueError, match=r"not set: .*data\.pairs="):
        data_settings("data=tatoeba")


def test_the_preset_for_files_of_manythings_reads_either_direction(tmp_path: Path) -> None:
    write(tmp_path, "deu.txt", [f"{target}\t{source}\tCC-BY 2.0 #1" for source, target in sentences(100)])
    file = f"data.pairs={tmp_path}/deu.txt"
    cuts = [
        with_splits(
            replace(data_settings("data=tatoeba", file, "data.split=[0.2,0.2]", *more), cache=str(tmp_path / "cache"))
        )
        for more in ([], ["data.target_language=en"])
    ]
    assert [corpus.languages for corpus in cuts] == [("en", "de"), ("de", "en")]
    assert [pair[::-1] for pair in cuts[0].read("test")] == list(cuts[1].read("test"))


def test_every_pair_is_left_out_with_its_group_in_one_fold_of_either_direction(tmp_path: Path) -> None:
    pairs = [*sentences(200), *((f"Satz {letters(7)}!", f"Again {letters(number)}") for number in range(5)), ("…", "!")]
    write(tmp_path, "x.de", [source for source, _ in pairs])
    write(tmp_path, "x.en", [target for _, target in pairs])
    folds = {}
    for fold in (1, 2, 3):
        corpus = with_splits(settings(tmp_path, fold=[fold, 3]))
        back = with_splits(settings(tmp_path, fold=[fold, 3], source_language="en", target_language="de"))
        left_out = replace(corpus, train=str(Path(str(corpus.train)).with_name(LEFT_OUT)))
        folds[fold] = list(left_out.read("train"))
        assert sorted([*folds[fold], *corpus.read("train")]) == sorted(pairs)
        assert sorted(pair[::-1] for pair in back.read("train")) == sorted(corpus.read("train"))
        assert 40 < len(folds[fold]) < 100
    assert sorted(pair for fold in folds.values() for pair in fold) == sorted(pairs[:-1])
    assert {fold for fold, inside in folds.items() for source, _ in inside if comparable(source) == "satzh"} != set()
    assert sum(any(comparable(source) == "satzh" for source, _ in inside) for inside in folds.values()) == 1


def test_a_fold_is_a_part_of_train_whatever_the_split(tmp_path: Path) -> None:
    write(tmp_path, "x.tsv", ["\t".join(pair) for pair in sentences(600)])
    for fold in (1, 2, 3):
        corpus = with_splits(whole(tmp_path, "x.tsv", split=[0.3, 0.3], fold=[fold, 3]))
        left_out = replace(corpus, train=str(Path(str(corpus.train)).with_name(LEFT_OUT)))
        counts = [sum(1 for _ in one.read("train")) for one in (left_out, corpus)]
        assert counts[0] / sum(counts) == pytest.approx(1 / 3, abs=0.1)


def test_another_cut_of_the_same_file_does_not_give_the_one_before(tmp_path: Path) -> None:
    write(tmp_path, "x.tsv", ["\t".join(pair) for pair in sentences(300)])

    def count(part: str, **changes: object) -> int:
        return sum(1 for _ in with_splits(whole(tmp_path, "x.tsv", **changes)).read(part))

    assert count("test") < count("test", split=[0.1, 0.4])
    assert count("train", fold=[1, 2]) < count("train", fold=[1, 4])
    given = {"pairs": None, **dict.fromkeys(SPLITS, str(tmp_path / "x.tsv"))}
    for language in ("de", "gsw"):  # the two languages have different file names
        assert 100 < count("train", fold=[1, 2], source_language=language, **given) < 200


def test_a_fold_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for fold in ([1], [3, 2], [1, 1]):
        with pytest.raises(ValueError, match=r"data\.fold=.* must be the part to leave out and the number of parts"):
            settings(tmp_path, fold=fold)


def test_a_part_that_would_have_no_pairs_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    for language in ("de", "en"):
        write(tmp_path, f"x.{language}", ["…"] * 5)  # a line without a letter is in no part
    with pytest.raises(ValueError, match=r"x is too small for data\.fold=\[1, 2\]: a part has no pairs"):
        with_splits(settings(tmp_path, fold=[1, 2]))
    assert not list((tmp_path / "cache").glob("*/train.de"))


def test_a_run_without_a_part_of_its_pairs_says_which_one(tmp_path: Path) -> None:
    write(tmp_path, "x.tsv", ["\t".join(pair) for pair in sentences(100)])
    corpus = whole(tmp_path, "x.tsv", fold=[2, 3])
    assert notes_of_cut(with_splits(corpus), corpus)[2:] == [
        "part 2 of 3 of the training pairs is left out (data.fold)"
    ]


def test_the_same_bytes_as_another_kind_of_table_are_split_again(tmp_path: Path) -> None:
    lines = [f"{source}\tand,{target}" for source, target in sentences(100)]  # two columns with either separator
    for name in ("x.tsv", "x.csv"):
        write(tmp_path, name, lines)
    assert cut_of(whole(tmp_path, "x.tsv")) != cut_of(whole(tmp_path, "x.csv"))


def three_languages(folder: Path, name: str) -> DataSettings:
    return whole(folder, name, directions=["de-en", "en-de", "fr-en"])


def test_three_languages_are_cut_line_by_line_from_files_and_from_a_table(tmp_path: Path) -> None:
    lines = [(*pair, f"Phrase {letters(number)}") for number, pair in enumerate(sentences(200))]
    lines[0] = ("Satz ein", "Sentence one", lines[1][2])  # only the French sentences are equal: one group
    for column, language in enumerate(("de", "en", "fr")):
        write(tmp_path, f"x.{language}", [line[column] for line in lines])
    write(tmp_path, "y.tsv", ["fr\tde\tnote\ten", *(f"{fr}\t{de}\t-\t{en}" for de, en, fr in lines)])
    found = []
    for name in ("x", "y.tsv"):
        cut = with_splits(three_languages(tmp_path, name))
        found.append({split: list(cut.read(split)) for split in cut.all_splits})
    assert found[0] == found[1]
    german = {line[:2]: line for line in lines}
    for split in SPLITS:
        of_split = [german[pair] for pair in found[0][split]]
        assert found[0][f"{split}.en-de"] == [(en, de) for de, en, _ in of_split]
        assert found[0][f"{split}.fr-en"] == [(fr, en) for _, en, fr in of_split]
    assert sum(len(found[0][split]) for split in SPLITS) == len(lines)
    assert len({split for split in SPLITS for pair in found[0][split] if pair in (lines[0][:2], lines[1][:2])}) == 1


@pytest.mark.parametrize("shared", [0, 1, 2])
def test_lines_with_a_common_sentence_in_any_of_three_languages_share_a_split(shared: int) -> None:
    lines = []
    for number in range(100):
        line = [f"Satz {letters(number)}", f"Sentence {letters(number)}", f"Phrase {letters(number)}"]
        line[shared] = f"Both {letters(number // 2)}"
        lines.append(tuple(line))
    splits = assign_splits(lines, ("de", "en", "fr"), (0.3, 0.3)).tolist()
    assert splits[::2] == splits[1::2]
    assert set(splits) == {0, 1, 2}


@pytest.mark.parametrize("heading", ["DE\tEN\tFR", "German\tEnglish\tFrench"])
def test_a_table_that_is_cut_may_name_its_languages_as_any_other(tmp_path: Path, heading: str) -> None:
    lines = [
        f"{german}\t{english}\tPhrase {letters(number)}" for number, (german, english) in enumerate(sentences(200))
    ]
    write(tmp_path, "x.tsv", [heading, *lines])
    cut = with_splits(three_languages(tmp_path, "x.tsv"))
    assert sum(len(list(cut.read(split))) for split in SPLITS) == 200


def test_pairs_of_one_direction_alone_are_not_cut_away(tmp_path: Path) -> None:
    for name in ("x.de-en.de", "x.de-en.en", "x.en-de.de", "x.en-de.en"):
        write(tmp_path, name, [f"{name} {letters(number)}" for number in range(20)])
    both = settings(tmp_path, directions=["de-en", "en-de"])
    assert [one.languages for one in both.with_own_pairs] == [("de", "en"), ("en", "de")]
    for changed in (replace(both, fold=[1, 2]), replace(both, validation=None, test=None)):
        for cut in (with_splits, DataSettings.check_files):
            with pytest.raises(ValueError, match=r"x\.en-de\.en and .*x\.de-en\.en are both in en: only a corpus with"):
                cut(changed)


def test_three_languages_that_have_no_common_lines_or_no_names_are_not_cut(tmp_path: Path) -> None:
    write(tmp_path, "x.tsv", ["\t".join((*pair, "Phrase")) for pair in sentences(20)])
    with pytest.raises(ValueError, match=r"x\.tsv must name its columns in its first line: de, en, fr"):
        with_splits(three_languages(tmp_path, "x.tsv"))
    for name in ("z.de-en.de", "z.de-en.en", "z.fr", "z.en"):
        write(tmp_path, name, ["a", "b"])
    with pytest.raises(ValueError, match=r"z\.en and .*z\.de-en\.en are both in en: only a corpus with the same lines"):
        with_splits(three_languages(tmp_path, "z"))
    write(tmp_path, "x.fr", ["one line"])
    for language in ("de", "en"):
        write(tmp_path, f"x.{language}", ["one", "two"])
    with pytest.raises(ValueError, match=r"x\.de has 2 lines but .*x\.fr has 1"):
        with_splits(three_languages(tmp_path, "x"))


def test_a_part_is_left_out_of_three_languages_at_once(tmp_path: Path) -> None:
    lines = [(*pair, f"Phrase {letters(number)}") for number, pair in enumerate(sentences(100))]
    for column, language in enumerate(("de", "en", "fr")):
        write(tmp_path, f"x.{language}", [line[column] for line in lines])
    parts = []
    for part in (1, 2):
        cut = with_splits(settings(tmp_path, directions=["de-en", "fr-en"], fold=[part, 2]))
        kept, french = list(cut.read("train")), list(cut.read("train.fr-en"))
        assert [target for _, target in kept] == [target for _, target in french]
        assert 0 < len(kept) < len(lines)
        left_out = [
            (cut_of(cut) / f"{LEFT_OUT}.{language}").read_text(encoding="utf-8").splitlines()
            for language in ("de", "en", "fr")
        ]
        parts.append(list(zip(*left_out, strict=True)))
        assert sorted([*kept, *(line[:2] for line in parts[-1])]) == sorted(line[:2] for line in lines)
    assert sorted(parts[0] + parts[1]) == sorted(lines)
