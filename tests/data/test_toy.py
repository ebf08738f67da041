"""The bundled corpus has the properties that its README states."""

import re
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tests.data.corpora import TOY, recipe

SIZES = {"train": 20000, "validation": 500, "test": 500, "compositional": 500}
EVALUATED = ("validation", "test", "compositional")
HOURS = {
    "eins": "one", "zwei": "two", "drei": "three", "vier": "four", "fünf": "five", "sechs": "six",
    "sieben": "seven", "acht": "eight", "neun": "nine", "zehn": "ten", "elf": "eleven", "zwölf": "twelve",
}  # fmt: skip


def lines(name: str) -> list[str]:
    return (TOY / name).read_text(encoding="utf-8").splitlines()


def pairs(split: str) -> list[tuple[str, str]]:
    return list(zip(lines(f"{split}.de"), lines(f"{split}.en"), strict=True))


def words(sentence: str) -> list[str]:
    return re.findall(r"[\w'-]+", sentence)


@pytest.fixture(scope="module")
def train() -> list[tuple[str, str]]:
    return pairs("train")


@pytest.mark.long
def test_generating_again_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["generate.py", "--output", str(tmp_path)])
    recipe(TOY / "generate.py").main()
    for split in SIZES:
        for language in ("de", "en"):
            name = f"{split}.{language}"
            assert (tmp_path / name).read_bytes() == (TOY / name).read_bytes(), name
    for split in EVALUATED:
        assert (tmp_path / f"{split}.alignments").read_bytes() == (TOY / f"{split}.alignments").read_bytes(), split


@pytest.mark.parametrize("split", SIZES)
def test_each_file_has_the_promised_number_of_lines(split: str) -> None:
    assert len(pairs(split)) == SIZES[split]


@pytest.mark.parametrize("language", ["de", "en"])
def test_no_sentence_stands_twice_in_the_corpus(language: str) -> None:
    counts = Counter(line for split in SIZES for line in lines(f"{split}.{language}"))
    assert [line for line, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("language", ["de", "en"])
@pytest.mark.parametrize("split", EVALUATED)
def test_no_evaluated_sentence_is_in_training(split: str, language: str) -> None:
    assert not set(lines(f"{split}.{language}")) & set(lines(f"train.{language}"))


def test_one_german_sentence_has_one_english_sentence() -> None:
    translations: dict[str, set[str]] = {}
    for split in SIZES:
        for german, english in pairs(split):
            translations.setdefault(german.lower(), set()).add(english)
    assert [german for german, found in translations.items() if len(found) > 1] == []


@pytest.mark.parametrize("language", ["de", "en"])
def test_every_evaluated_word_occurs_in_training(language: str) -> None:
    known = {word for line in lines(f"train.{language}") for word in words(line)}
    evaluated = {word for split in EVALUATED for line in lines(f"{split}.{language}") for word in words(line)}
    assert evaluated - known == set()


def test_sentences_are_well_formed() -> None:
    for split in SIZES:
        for pair in pairs(split):
            for sentence in pair:
                assert sentence[0].isupper(), sentence
                assert sentence[-1] in ".?!", sentence
                assert not re.search(r"  | [.,?!]|[{}_|]", sentence), sentence


def test_sentences_vary_in_length(train: list[tuple[str, str]]) -> None:
    lengths = [len(re.findall(r"[\w'-]+|[.,?!]", german)) for german, _ in train]
    assert 8 < sum(lengths) / len(lengths) < 10
    assert min(lengths) >= 3
    assert max(lengths) <= 22


# ---- the word alignments, tested with words that both languages write in the same way


def links(split: str) -> list[dict[tuple[int, int], str]]:
    """Whether each link is sure ("-") or possible ("p")."""
    rows = [re.findall(r"(\d+)([-p])(\d+)", line) for line in lines(f"{split}.alignments")]
    return [{(int(i), int(j)): kind for i, kind, j in row} for row in rows]


@pytest.mark.parametrize("split", EVALUATED)
def test_a_name_is_linked_with_itself_and_surely_with_nothing_else(split: str) -> None:
    names = set(re.findall(r"^(\w+) [fm]$", "\n".join(section("names")), re.MULTILINE))
    counted = 0
    for (german, english), of_pair in zip(pairs(split), links(split), strict=True):
        left, right = ([re.sub(r"\W", "", word) for word in side.split()] for side in (german, english))
        for word in names & {*left} & {*right}:
            if left.count(word) == right.count(word) == 1:
                link = (left.index(word), right.index(word))
                sure = {one for one, kind in of_pair.items() if kind == "-"}
                assert {one for one in sure if link[0] == one[0] or link[1] == one[1]} == {link}, (german, english)
                counted += 1
    assert counted > 50


@pytest.mark.parametrize("split", EVALUATED)
def test_nearly_every_word_has_a_link_and_most_have_a_sure_one(split: str) -> None:
    for side, text in enumerate(zip(*pairs(split), strict=True)):
        words = sum(len(sentence.split()) for sentence in text)
        assert sum(len({link[side] for link in of_pair}) for of_pair in links(split)) > 0.95 * words
        sure = [{link[side] for link, kind in of_pair.items() if kind == "-"} for of_pair in links(split)]
        assert sum(map(len, sure)) > 0.6 * words


# ---- the compositional set, tested only with the words of the text and the lemmas of the grammar


def section(name: str) -> list[str]:
    """The lines of one section of the grammar."""
    found, inside = [], False
    for line in lines("grammar.txt"):
        line = line.partition("#")[0].strip()
        if line.startswith("["):
            inside = line == f"[{name}]"
        elif inside and line:
            found.append(line)
    return found


def held_out() -> list[tuple[str, str]]:
    rows = [line.split(" : ") for line in section("held out")]
    return [(verb, noun.strip()) for verb, nouns in rows for noun in nouns.split(",")]


def noun_forms(lemma: str) -> set[str]:
    rows = section("nouns") + section("bare nouns")
    line = next(row for row in rows if re.match(rf"((der|die|das) )?{lemma}\b", row))
    forms = [form.strip() for form in re.sub(r"^(der|die|das) ", "", line.partition("=")[0]).split(",")]
    return {form + ending for form in forms for ending in ("", "n", "s", "es")}


def verb_pattern(lemma: str) -> re.Pattern[str]:
    """A verb in any form within a clause; a separable verb also in two parts."""
    rows = [line.partition("=")[0].split(",") for line in section("verbs")]
    infinitive, present, perfect = next(row for row in rows if row[0].strip().replace("|", "") == lemma)
    prefix, _, bare = infinitive.strip().rpartition("|")
    stem = re.escape(re.sub("e?n$", "", bare))
    third = present.split("/")[0].strip()
    changed = re.escape(re.sub("e?t$", "", third))
    finite = rf"({stem}(e|st|est|t|et|en|n)?|{changed}(t|et|st|est)?)"
    participle = re.escape(perfect.split()[-1])
    if not prefix:
        return re.compile(rf"\b({finite}|{participle})\b", re.IGNORECASE)
    joined = rf"{prefix}(zu)?{finite}"
    return re.compile(rf"\b({joined}|{participle})\b|\b{finite}\b.*\b{prefix}\b", re.IGNORECASE)


def clauses(sentence: str) -> list[str]:
    """The clauses of a sentence, split at commas; a relative clause keeps the noun before it."""
    parts = re.split(r"[,.?!]", sentence)
    relative = re.compile(r" (der|die|das|den) ")
    for index in range(1, len(parts)):
        if relative.match(parts[index]):
            parts[index] = parts[index - 1].split()[-1] + parts[index]
    return parts


def has_pair(sentence: str, verb: re.Pattern[str], nouns: set[str]) -> bool:
    return any(verb.search(clause) and nouns & set(words(clause)) for clause in clauses(sentence))


def test_held_out_pairs_of_verb_and_object_occur_only_in_the_compositional_set() -> None:
    patterns = [(verb_pattern(verb), noun_forms(noun)) for verb, noun in held_out()]
    for split in SIZES:
        for german, _ in pairs(split):
            spoken = set(words(german))
            found = any(nouns & spoken and has_pair(german, verb, nouns) for verb, nouns in patterns)
            assert found == (split == "compositional"), (split, german)


def test_each_held_out_verb_and_noun_is_frequent_in_training(train: list[tuple[str, str]]) -> None:
    cut = [clauses(german) for german, _ in train]
    for lemma in {verb for verb, _ in held_out()}:
        pattern = verb_pattern(lemma)
        spoken = (sentence for sentence in cut if any(pattern.search(clause) for clause in sentence))
        assert len(list(islice(spoken, 30))) == 30, lemma
    counts = Counter(word for german, _ in train for word in words(german))
    for lemma in {noun for _, noun in held_out()}:
        assert sum(counts[form] for form in noun_forms(lemma)) >= 15, lemma


def test_every_evaluated_noun_occurs_fifteen_times_in_training(train: list[tuple[str, str]]) -> None:
    counts = Counter(word for german, _ in train for word in words(german))
    evaluated = {word for split in EVALUATED for german, _ in pairs(split) for word in words(german)}
    for line in section("nouns"):
        lemma = re.sub(r"^(der|die|das) ", "", line).split(",")[0].split(" =")[0].strip()
        forms = noun_forms(lemma)
        if forms & evaluated:
            assert sum(counts[form] for form in forms) >= 15, lemma


# ---- the contents of the corpus


def test_half_an_hour_looks_forward_in_german_and_back_in_english() -> None:
    names = list(HOURS)
    seen = set()
    for split in SIZES:
        for german, english in pairs(split):
            for hour in re.findall(r"\bhalb (\w+)", german):
                before = HOURS[names[names.index(hour) - 1]]
                assert f"half past {before}" in english, (german, english)
                seen.add(hour)
    assert seen == set(names)


@pytest.mark.parametrize(
    ("phenomenon", "german", "english"),
    [
        ("half hours", r"um halb acht\b", r"at half past seven\b"),
        ("quarters", r"Viertel vor", r"quarter to"),
        ("full hours", r"um drei Uhr", r"at three o'clock"),
        ("weak adjectives", r"\b(der|die|das) kleine \w+", r"\bthe small"),
        ("mixed adjectives", r"\bein (neues|teures|altes) \w+", r"\ban? (new|expensive|old)"),
        ("strong adjectives", r"(trink|bestell)\w* kalte Milch|kalte Milch", r"cold milk"),
        ("possessives of the subject", r"^(Anna|Laura|Julia|Emma)\b.*\bihre[nr]?\b", r"\bher\b"),
        ("genitives of names", r"\bAnnas \w+", r"Anna's"),
        ("genitives of nouns", r"\b(meines|unseres|seines|ihres) \w+s\b", r"\b(my|our|his|her) \w+'s\b"),
        ("verb second after an adverbial", r"^Gestern (hat|ist|haben|sind|habe|bin)\b", r"^Yesterday"),
        ("objects in front", r"^Diesen (\w+ )+(hat|habe|haben|muss|will|möchte)\b", r"\bthis \w+"),
        ("weil", r", weil .* (ist|war|waren|sind|bin|hat|hatte|haben|hatten)\.$", r" because "),
        ("dass", r", dass .*(hat|ist)\.$", r"\bthat\b"),
        ("wenn", r"^Wenn ", r"^When "),
        ("obwohl", r"^Obwohl .*, (wird|hat|haben|ist)", r"^Although "),
        ("indirect questions", r"nicht, ob ", r"whether"),
        ("infinitives of purpose", r", um .* zu \w+\.$", r" to \w+"),
        ("zu inside a separable verb", r"\bzuzumachen\.$", r"\bto close\b"),
        ("separable verbs apart", r"\b(ruft|rufe|rufen)\b.* an[.?]$", r"\bcall|calls|calling\b"),
        ("separable verbs joined", r"aufsteht\b", r"get(s|ting)? up"),
        ("separable participles", r"\baufgestanden\b", r"\bgot up\b"),
        ("perfect with haben", r"\bhat\b.*\bgekauft\b", r"\bbought\b"),
        ("perfect with sein", r"\bist\b.*\bgegangen\b", r"\bwent\b"),
        ("present perfect", r"\bnoch nicht\b", r"\bnot\b.*\byet\b"),
        ("seit", r"\bseit \w+ Jahren\b", r"\bbeen\b.*\bfor \w+ years\b"),
        ("progressive", r"\bgerade\b", r"\b(am|is|are)\b.*ing\b"),
        ("modal verbs", r"\bmuss\b", r"\bhas to\b|\bhave to\b"),
        ("gern", r"\bgern\b", r"\blikes? to\b"),
        ("gefallen", r"\bgefällt mir\b", r"^I (do not )?like"),
        ("kein", r"\bkeine?n?\b", r"\bnot\b.*\b(any|an?)\b"),
        ("nicht", r"\bnicht\b", r"\bnot\b"),
        ("relative clauses with the subject", r", der \w+", r"\bwho\b"),
        ("relative clauses with the object", r", (den|das|die) \w+", r"\bthat\b"),
        ("where with the dative", r"\bim Park\b", r"\bin the park\b"),
        ("whither with the accusative", r"\bin den Park\b", r"\bto the park\b"),
        ("contractions", r"\bzum Bahnhof\b", r"\bto the station\b"),
        ("reflexive verbs", r"\bsich\b.*\bauf\b", r"\blooking forward to\b"),
        ("polite questions", r"^(Herr|Frau) \w+, \w+ Sie ", r"^Mrs? \w+, .*\byou\b"),
        ("ihr", r"^Kinder, .*\bihr\b", r"^Children, .*\byou\b"),
        ("commands", r"\bbitte\b.*!$", r"^Please .*!$"),
        ("comparatives", r"\bälter als\b", r"\bolder than\b"),
        ("wh-questions", r"^Wohin ", r"^Where "),
    ],
)  # fmt: skip
def test_the_corpus_holds(phenomenon: str, german: str, english: str, train: list[tuple[str, str]]) -> None:
    count = sum(bool(re.search(german, left) and re.search(english, right)) for left, right in train)
    assert count >= 5, phenomenon


def test_the_little_corpus_has_no_translation_of_its_monolingual_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["little.py", "--output", str(tmp_path), "de", "en"])
    recipe(TOY / "little.py").main()
    read = {path.name: path.read_text(encoding="utf-8").splitlines() for path in tmp_path.iterdir()}
    assert list(zip(read["train.de"], read["train.en"], strict=True)) == pairs("train")[:500]
    translations = dict(pairs("train"))
    assert len(read["monolingual.en"]) == len(read["monolingual.de"]) == 3000
    assert {translations[text] for text in read["monolingual.de"]}.isdisjoint(read["monolingual.en"])
    assert set(read["monolingual.en"]).isdisjoint([*read["train.en"], *lines("test.en"), *lines("validation.en")])
