"""Write the toy corpus from its grammar: German sentences and their English translations, side by side.

The grammar (grammar.txt) has the words and the sentence patterns. This file has the rules of the two languages:
endings, verb forms, and the order of words. A sentence is drawn once, as a *clause* that knows who does what, when
and where. The methods `german` and `english` then write the clause in each language. Every word is marked with its
place in the grammar, so that it is known which words are translations of each other.

    python data/toy/generate.py [--output DIR]

The same grammar gives the same bytes on every Python: all draws use `random.Random(seed).random()`, whose
sequence is guaranteed not to change, and nothing depends on the order of a set.
"""

import argparse
import dataclasses
import itertools
import math
import pathlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

HERE = pathlib.Path(__file__).resolve().parent
SEED = 1
SIZES = {"train": 20000, "validation": 500, "test": 500, "compositional": 500}
SEEN = 3  # other files may only use a word, as it is written, if training has it at least this often

T = TypeVar("T")


# ----------------------------------------------------------------------------------------------- chance


class Chance:
    """Random draws that only use `random()`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def happens(self, probability: float) -> bool:
        return self.random() < probability

    def one(self, choices: Sequence[T]) -> T:
        return choices[int(self.random() * len(choices))]

    def weighted(self, weights: dict[T, float]) -> T:
        left = self.random() * sum(weights.values())
        choice = next(iter(weights))
        for choice, weight in weights.items():
            left -= weight
            if left < 0:
                return choice
        return choice


# ------------------------------------------------------------------------------------------- word alignment

# A word is followed by the names of its places, innermost first: "Käse", "noun", "acc", "A" is the noun of the object
# of the clause A. Words with the same places are translations of each other. "a+b": a word with two places.
MARK = "\ue000"


def mark(words: str, place: str) -> str:
    """Marks each word with its place, but not "_", which an object will replace."""
    return " ".join(word if word == "_" else f"{word}{MARK}{place}" for word in words.split())


def unmarked(words: str) -> str:
    return re.sub(rf"{MARK}[\w+-]+", "", words)


def places(word: str) -> set[tuple[str, ...]]:
    """The places of a word, outermost first; a word of the sentence pattern itself has the place ()."""
    names = [name.split("+") for name in re.findall(rf"{MARK}([\w+-]+)", word)]
    return set(itertools.product(*reversed(names)))


def alignment(german: str, english: str) -> str:
    """The links i-j from German word i to English word j, both counted from 0: "0-0 1p2".

    A word and its translation, which may be several words, get sure links (i-j). If several words are translated
    together by several ("um halb acht" = "at half past seven"), or if a word has no translation of its own ("hat" in
    "hat gegessen" = "ate"), they get possible links (ipj) with all words of the other side.
    """
    sides = [[places(word) for word in sentence.split()] for sentence in (german, english)]
    sure, possible = set(), set()
    for place in set().union(*sides[0], *sides[1]):
        inner = [[i for i, own in enumerate(side) if place in own] for side in sides]
        links = set(itertools.product(*inner))
        (sure if min(map(len, inner)) == 1 else possible).update(links)
        if not links and len(place) == 3:  # link the phrase around it: the whole verb, the whole noun phrase
            around = [[i for i, own in enumerate(side) if any(place[:2] == at[:2] for at in own)] for side in sides]
            possible.update(itertools.product(inner[0] or around[0], inner[1] or around[1]))
    return " ".join(f"{i}{'-' if (i, j) in sure else 'p'}{j}" for i, j in sorted(sure | possible))


# ------------------------------------------------------------------------------------- reading the grammar


@dataclasses.dataclass(frozen=True)
class Noun:
    german: str
    plural: str  # empty: a mass noun
    weak: str  # accusative and dative singular of a weak noun, or empty
    gender: str  # m, f or n
    english: str
    english_plural: str
    classes: tuple[str, ...]
    bare: bool = False  # never with an article, like the names of games


@dataclasses.dataclass(frozen=True)
class Complement:
    classes: tuple[str, ...]
    case: str
    preposition: str
    english: str


@dataclasses.dataclass(frozen=True)
class Verb:
    infinitive: str
    prefix: str
    reflexive: bool
    third: str
    second: str
    auxiliary: str
    participle: str
    english: tuple[str, str, str]  # base, past, participle
    subjects: tuple[str, ...]
    complements: tuple[Complement, ...]
    remarks: tuple[str, ...]

    @property
    def lemma(self) -> str:
        return ("sich " if self.reflexive else "") + self.prefix + self.infinitive

    @property
    def weight(self) -> int:
        return next((int(word[6:]) for word in self.remarks if word.startswith("weight")), 1)


@dataclasses.dataclass(frozen=True)
class Pair:
    """The same words in both languages."""

    german: str
    english: str
    classes: tuple[str, ...] = ()


def sections(path: pathlib.Path) -> dict[str, list[str]]:
    """The lines of each section, without remarks and empty lines."""
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("["):
            found[line.strip("[]")] = rows = []
        elif line:
            rows.append(line)
    return found


def split(line: str, separator: str) -> list[str]:
    return [part.strip() for part in line.split(separator)]


def read_pair(line: str) -> Pair:
    words, _, classes = line.partition(" : ")
    german, english = split(words, "=")
    return Pair(german, english, tuple(classes.split()))


def read_noun(line: str) -> Noun:
    pair = read_pair(line)
    article, _, forms = pair.german.partition(" ")
    german, plural, weak = [*split(forms, ","), "", ""][:3]
    english, english_plural = [*split(pair.english, ","), ""][:2]
    gender = {"der": "m", "die": "f", "das": "n"}[article]
    return Noun(german, plural, weak, gender, english, english_plural, pair.classes)


def read_verb(line: str) -> Verb:
    forms, _, frame = line.partition(" : ")
    german, english = split(forms, "=")
    infinitive, present, perfect = split(german, ",")
    reflexive = infinitive.startswith("sich ")
    prefix, _, infinitive = infinitive.removeprefix("sich ").rpartition("|")
    third, _, second = present.partition("/")
    stem = third.removesuffix("et") + "e" if third.endswith("et") else third.removesuffix("t")
    second = second or (third if stem.endswith(("s", "ß", "z", "x")) else stem + "st")
    auxiliary, _, participle = perfect.partition(" ")
    parts = split(english, ",")
    base, past, done = parts if len(parts) == 3 else [*parts, parts[1]]
    subjects, _, rest = frame.partition(">")
    complements, _, remarks = rest.partition(";")
    return Verb(
        infinitive, prefix, reflexive, third, second, auxiliary, participle, (base, past, done),
        tuple(subjects.strip().split("|")),
        tuple(read_complement(part) for part in split(complements, ",") if part),
        tuple(remarks.split()),
    )  # fmt: skip


def read_complement(text: str) -> Complement:
    words, _, english = text.partition('"')
    *before, classes = words.split()
    preposition, case = before[0].split("+") if before else ("", "acc")
    if classes.endswith(".dat"):
        case = "dat"
    return Complement(tuple(classes.replace(".dat", "").split("|")), case, preposition, english.strip('"'))


# ------------------------------------------------------------------------------------ endings and articles

Table = dict[str, tuple[str, ...]]  # for each gender ("p" is the plural): nominative, accusative, dative


def endings(table: dict[str, str]) -> Table:
    """A table written with spaces; "-" is no ending."""
    return {gender: tuple(row.replace("-", "").split(" ")) for gender, row in table.items()}


DEFINITE = endings({"m": "der den dem", "f": "die die der", "n": "das das dem", "p": "die die den"})
DER_WORD = endings({"m": "er en em", "f": "e e er", "n": "es es em", "p": "e e en"})
EIN_WORD = endings({"m": "- en em", "f": "e e er", "n": "- - em", "p": "e e en"})
WEAK = endings({"m": "e en en", "f": "e e en", "n": "e e en", "p": "en en en"})
MIXED = endings({"m": "er en en", "f": "e e en", "n": "es es en", "p": "en en en"})
STRONG = endings({"m": "er en em", "f": "e e er", "n": "es es em", "p": "e e en"})
CASES = ("nom", "acc", "dat")

CONTRACTIONS = {
    "in dem": "im", "in das": "ins", "an dem": "am", "an das": "ans", "zu dem": "zum", "zu der": "zur",
    "bei dem": "beim", "von dem": "vom",
}  # fmt: skip


def ending(table: Table, gender: str, case: str) -> str:
    return table[gender][CASES.index(case)]


def article(english: str) -> str:
    """The article of these words: "a" before a consonant that is heard, "an" before a vowel that is heard."""
    sounds_open = english[0] in "aeiou" and not re.match(r"(uni|use|eu|one)", english)
    return "an" if sounds_open or english.startswith("hour") else "a"


# --------------------------------------------------------------------------------------------- noun phrases

ICH, DU, ER, WIR, IHR, SIE = range(6)
POSSESSIVES = {
    (ICH, ""): ("mein", "my"), (DU, ""): ("dein", "your"), (ER, "m"): ("sein", "his"),
    (ER, "f"): ("ihr", "her"), (WIR, ""): ("unser", "our"), (IHR, ""): ("euer", "your"),
    (SIE, ""): ("ihr", "their"), (SIE, "Sie"): ("Ihr", "your"),
}  # fmt: skip
REFLEXIVES = ("mich", "dich", "sich", "uns", "euch", "sich")


@dataclasses.dataclass(frozen=True)
class Phrase:
    """A noun phrase or pronoun: its three German cases and its English forms."""

    cases: tuple[str, str, str]
    english: str
    english_object: str
    person: int = ER
    gender: str = "m"
    determiner: str = ""
    noun: str = ""
    pronoun: bool = False

    def german(self, case: str) -> str:
        return self.cases[CASES.index(case)]

    @property
    def owner(self) -> tuple[str, str] | None:
        """The possessive that points back to this phrase; a neuter has none."""
        if self.person == ER:
            return POSSESSIVES.get((ER, self.gender))
        return POSSESSIVES[self.person, "Sie" if self.gender == "Sie" else ""]

    def taken_up(self) -> "Phrase":
        """The pronoun that stands for this phrase in the next clause."""
        if self.pronoun:
            return self
        return PRONOUNS["they" if self.person == SIE else "he" if self.gender == "m" else "she"]


def listed(first: str, conjunction: str, second: str) -> str:
    return f"{mark(first, 'first')} {mark(conjunction, 'conjunction')} {mark(second, 'second')}"


def pronoun(german: str, english: str, person: int, gender: str = "") -> Phrase:
    nominative, accusative, dative = german.split()
    subject, _, other = english.partition(" ")
    return Phrase((nominative, accusative, dative), subject, other or subject, person, gender, pronoun=True)


PRONOUNS = {
    "I": pronoun("ich mich mir", "I me", ICH),
    "you": pronoun("du dich dir", "you", DU),
    "he": pronoun("er ihn ihm", "he him", ER, "m"),
    "she": pronoun("sie sie ihr", "she her", ER, "f"),
    "we": pronoun("wir uns uns", "we us", WIR),
    "children": pronoun("ihr euch euch", "you", IHR),
    "they": pronoun("sie sie ihnen", "they them", SIE),
    "formal": pronoun("Sie Sie Ihnen", "you", SIE, "Sie"),
}


# --------------------------------------------------------------------------------------------- German verbs

IRREGULAR = {
    "sein": "bin bist ist sind seid sind",
    "haben": "habe hast hat haben habt haben",
    "werden": "werde wirst wird werden werdet werden",
    "können": "kann kannst kann können könnt können",
    "müssen": "muss musst muss müssen müsst müssen",
    "wollen": "will willst will wollen wollt wollen",
    "dürfen": "darf darfst darf dürfen dürft dürfen",
    "sollen": "soll sollst soll sollen sollt sollen",
    "möchten": "möchte möchtest möchte möchten möchtet möchten",
    "war": "war warst war waren wart waren",
    "hatte": "hatte hattest hatte hatten hattet hatten",
    "konnte": "konnte konntest konnte konnten konntet konnten",
    "musste": "musste musstest musste mussten musstet mussten",
    "wollte": "wollte wolltest wollte wollten wolltet wollten",
    "durfte": "durfte durftest durfte durften durftet durften",
}  # fmt: skip


def conjugate(verb: Verb, person: int) -> str:
    """The present of a German verb, without its separable prefix."""
    if verb.infinitive in IRREGULAR:
        return IRREGULAR[verb.infinitive].split()[person]
    stem = verb.infinitive.removesuffix("n").removesuffix("e")
    if person == ICH:
        return stem.removesuffix("el") + "le" if verb.infinitive.endswith("eln") else stem + "e"
    if person == IHR:
        return stem + ("et" if re.search(r"([td]|[^aeiouäöülrh][nm])$", stem) else "t")
    return {DU: verb.second, ER: verb.third}.get(person, verb.infinitive)


def imperative(verb: Verb, person: int) -> str:
    """The bare form for du; ihr is as in the present, Sie is the infinitive with its pronoun."""
    if person != DU:
        return conjugate(verb, person)
    stem = verb.infinitive.removesuffix("n").removesuffix("e")
    third = verb.third.removesuffix("t")
    if "e" in stem and "i" in third and "e" not in third.replace("ie", "i"):
        return third  # lesen, liest, lies; but fahren, fährt, fahr
    return stem + ("e" if re.search(r"([td]|[^aeiouäöülrh][nm]|er|el)$", stem) else "")


# -------------------------------------------------------------------------------------------- English verbs

BE = {
    "present": ("am", "are", "is", "are", "are", "are"),
    "past": ("was", "were", "was", "were", "were", "were"),
}


def english_finite(words: str, form: str, person: int) -> str:
    """The finite form of the first of some words: "look for" gives "looks for"."""
    first, space, rest = words.partition(" ")
    if first == "be":
        return BE[form][person] + space + rest
    if form == "present" and person == ER:
        if first == "have":
            first = "has"
        elif first.endswith(("s", "sh", "ch", "x", "z", "o")):
            first += "es"
        elif re.search(r"[^aeiou]y$", first):
            first = first[:-1] + "ies"
        else:
            first += "s"
    return first + space + rest


DOUBLED = {
    "get",
    "put",
    "cut",
    "run",
    "swim",
    "begin",
    "forget",
    "travel",
    "plan",
    "sit",
}


def english_ing(words: str) -> str:
    first, space, rest = words.partition(" ")
    if first in DOUBLED:
        first += first[-1]
    elif first == "lie":
        first = "ly"
    elif first.endswith("e") and not first.endswith("ee") and first != "be":
        first = first[:-1]
    return first + "ing" + space + rest


# The tenses: German finite verb (None: the verb itself) and what closes the clause; English finite verb, its
# form, and the shape of what follows. "base" stands for the English verb.
TENSES = {
    "present": (None, "", "base", "present", ""),
    "past": ("perfect", "participle", "base", "past", ""),
    "since": (None, "", "have+", "present", "been ing"),
    "already": ("perfect", "participle", "have+", "present", "done"),
    "progressive": (None, "", "be", "present", "ing"),
    "future": (None, "", "will", "", "base"),
    "going": ("werden", "infinitive", "be", "present", "going to base"),
    "can": ("können", "infinitive", "can", "", "base"),
    "must": ("müssen", "infinitive", "have", "present", "to base"),
    "want": ("wollen", "infinitive", "want", "present", "to base"),
    "may": ("dürfen", "infinitive", "be", "present", "allowed to base"),
    "should": ("sollen", "infinitive", "should", "", "base"),
    "would": ("möchten", "infinitive", "would", "", "like to base"),
    "could": ("konnte", "infinitive", "be", "past", "able to base"),
    "had to": ("musste", "infinitive", "have", "past", "to base"),
    "wanted": ("wollte", "infinitive", "want", "past", "to base"),
    "might": ("durfte", "infinitive", "be", "past", "allowed to base"),
    "like": (None, "", "like", "present", "to base"),
    "prefer": (None, "", "prefer", "present", "to base"),
    "was": ("preterite", "", "base", "past", ""),
    "command": (None, "", "base", "", ""),
}
AUXILIARIES = {"be", "have+", "will", "can", "would", "should"}
# The determiners that an object in a tense has not.
UNUSUAL = {
    "present": ["the", "thes", "this", "two", "many"], "like": ["the", "thes", "this", "two", "many"],
    "prefer": ["the", "thes", "this", "two", "many"], "progressive": ["two", "many", "this"],
    "already": ["a", "bare", "bares", "two", "many"], "since": ["the", "two", "many"],
}  # fmt: skip


# -------------------------------------------------------------------------------------------------- clauses

# The order of a clause's parts: the German middle field, and the English after the verb.
GERMAN_ORDER = ("time", "frequency", "clock", "gern", "dat", "to", "known", "schon", "not", "manner", "place",
                "new", "with", "whither", "predicate")  # fmt: skip
ENGLISH_ORDER = (
    "dat",
    "acc",
    "predicate",
    "to",
    "with",
    "whither",
    "manner",
    "place",
    "yet",
    "time",
    "clock",
)


def full_verb(words: str) -> str:
    return mark(mark(words, "full"), "verb")


def auxiliary_verb(words: str) -> str:
    return mark(mark(words, "auxiliary"), "verb")


@dataclasses.dataclass
class Clause:
    """Who does what: a verb, a subject, a tense, and the other parts by the name of their place."""

    verb: Verb
    subject: Phrase
    tense: str
    parts: dict[str, Pair] = dataclasses.field(default_factory=dict)
    pronouns: tuple[str, ...] = ()  # the names of the parts that are pronouns
    negated: bool = False
    combinations: tuple[tuple[str, str], ...] = ()  # verb and object noun, by lemma
    asked: bool = False

    # ------ German

    def closed(self) -> tuple[str, str]:
        """The finite verb, and what closes the clause."""
        finite = TENSES[self.tense][0]
        verb, person = self.verb, self.subject.person
        if finite is None:
            return conjugate(verb, person), verb.prefix
        if finite == "preterite":
            return IRREGULAR[{"sein": "war", "haben": "hatte"}[verb.infinitive]].split()[person], ""
        if finite == "perfect":
            auxiliary = {"hat": "haben", "ist": "sein"}[verb.auxiliary]
            return IRREGULAR[auxiliary].split()[person], verb.participle
        return IRREGULAR[finite].split()[person], verb.prefix + verb.infinitive

    def part(self, name: str) -> str:
        """One part in German. What English says by the form of the verb ("gerade", "gern") belongs to the verb."""
        pair = self.parts[name]
        if not pair.english and name != "not":
            return mark(mark(pair.german, "auxiliary"), "verb")
        return mark(pair.german, name)

    def middle(self, without: Iterable[str] = (), person: int | None = None) -> list[str]:
        said = {name: self.part(name) for name in self.parts if name not in without}
        words = [said.pop(name) for name in self.pronouns if name in said]
        if self.verb.reflexive:
            words.insert(0, full_verb(REFLEXIVES[self.subject.person if person is None else person]))
        if "acc" in said:  # an object that is known stands before the place, a new one behind it
            determiner = (self.parts["acc"].classes or ("",))[0]
            said["new" if determiner in ("a", "no", "bare", "bares", "two", "many") else "known"] = said["acc"]
        return words + [said[name] for name in GERMAN_ORDER if said.get(name)]

    def german(self, order: str, front: str = "", without: Iterable[str] = ()) -> str:
        """Say the clause. The order is "second", "first", "last" or "asked" (after a question word)."""
        finite, close = self.closed()
        # A tense of two verbs has an auxiliary; a separable prefix belongs to the verb.
        is_auxiliary = TENSES[self.tense][1] != ""
        joined = close + finite if close == self.verb.prefix else ""
        finite = auxiliary_verb(finite) if is_auxiliary else full_verb(finite)
        close = full_verb(close)
        if order == "second" and not front and "acc" in self.parts and "this" in self.parts["acc"].classes:
            front = "acc"  # "Diesen Film habe ich gesehen": what is pointed at comes first
        without = {front, *without}
        subject = [] if "subject" in without else [mark(self.subject.german("nom"), "subject")]
        middle = self.middle(without)
        if order == "last":
            words = [*subject, *middle, full_verb(joined) or f"{close} {finite}"]
        elif order == "first" or (order == "second" and front):
            words = ([self.part(front)] if front else []) + [finite, *subject, *middle, close]
        else:
            words = [*subject, finite, *middle, close]
        return " ".join(word for word in words if word)

    def german_infinitive(self) -> str:
        """The clause with "zu", without its subject."""
        verb = self.verb
        joined = mark(mark(f"{verb.prefix}zu{verb.infinitive}", "full+zu"), "verb")
        apart = f"{mark(mark('zu', 'zu'), 'verb')} {full_verb(verb.infinitive)}"
        return " ".join([*self.middle(), joined if verb.prefix else apart])

    def german_command(self) -> str:
        subject = self.subject
        words = [full_verb(imperative(self.verb, subject.person))]
        words += [mark("Sie", "subject")] if subject.gender == "Sie" else []
        words += [mark("bitte", "bitte"), *self.middle(without=["time", "clock"]), full_verb(self.verb.prefix)]
        return " ".join(word for word in words if word)

    # ------ English

    def english_shape(self) -> tuple[str, str, str]:
        """The auxiliary if there is one, the finite verb if there is none, and what follows, in its places."""
        *_, finite, form, shape = TENSES[self.tense]
        base, past, done = self.verb.english
        person = self.subject.person
        full = {"base": base, "ing": english_ing(base), "done": done}
        rest = " ".join(full_verb(full[word]) if word in full else auxiliary_verb(word) for word in shape.split())
        do = auxiliary_verb(english_finite("do", form, person) if form == "present" else "did")
        if finite == "base":
            if base.split()[0] == "be":
                return full_verb(english_finite("be", form, person)), "", full_verb(base[3:])
            if self.needs_do():
                return do, "", full_verb(base)
            return "", full_verb(english_finite(base, form, person) if form == "present" else past), ""
        if finite in AUXILIARIES:
            return auxiliary_verb(english_finite(finite.strip("+"), form, person)), "", rest
        if self.needs_do():
            return do, "", f"{auxiliary_verb(finite)} {rest}"
        past_of = {"have": "had", "want": "wanted"}
        said = english_finite(finite, "present", person) if form == "present" else past_of[finite]
        return "", auxiliary_verb(said), rest

    def needs_do(self) -> bool:
        return self.asked or self.negated

    def tail(self, verb: str, without: Iterable[str]) -> list[str]:
        """The English verb with its particles, and all that comes after it."""
        # "noch nicht" is one part: so are "not" and "yet".
        said = {
            name: mark(pair.english, "not" if name == "yet" else name)
            for name, pair in self.parts.items()
            if name not in without
        }
        if "_" in verb:
            verb = verb.replace("_", said.pop("acc", "")).replace("  ", " ")
        return [verb, *(said[name] for name in ENGLISH_ORDER if said.get(name))]

    def english(self, question: bool = False, front: str = "", without: Iterable[str] = ()) -> str:
        """Say the clause, as a statement or with the auxiliary before the subject."""
        self.asked = question
        without = {front, *without}
        auxiliary, finite, rest = self.english_shape()
        subject = "" if "subject" in without else mark(self.subject.english, "subject")
        negation = self.negation() if self.negated else ""
        if unmarked(auxiliary) == "can" and negation and not question:
            auxiliary, negation = mark(mark("cannot", "auxiliary"), "verb+not"), ""
        middle = next(
            (mark(self.parts[name].english, name) for name in ("frequency", "schon") if name in self.parts), ""
        )
        verb = f"{finite} {rest}".strip()
        start = [mark(self.parts[front].english, front)] if front in self.parts else []
        head = [auxiliary, subject, negation] if question else [subject, auxiliary, negation]
        self.asked = False
        return " ".join(word for word in [*start, *head, middle, *self.tail(verb, without)] if word)

    def negation(self) -> str:
        """The word "not", in the place of "nicht", or of "kein" with the object."""
        is_kein = "acc" in self.parts and "no" in self.parts["acc"].classes
        return mark(mark("not", "determiner"), "acc") if is_kein else mark("not", "not")

    def english_base(self) -> str:
        """The clause without subject and tense, as after "to"."""
        return " ".join(self.tail(full_verb(self.verb.english[0]), ()))


# ----------------------------------------------------------------------------------------------- the writer


class Writer:
    """Draws clauses and sentences from the grammar."""

    def __init__(self, grammar: pathlib.Path, seed: int) -> None:
        rules = sections(grammar)
        self.chance = Chance(seed)
        self.nouns = [read_noun(line) for line in rules["nouns"]]
        for line in rules["bare nouns"]:
            pair = read_pair(line)
            self.nouns.append(Noun(pair.german, "", "", "n", pair.english, "", pair.classes, bare=True))
        self.by_name = {noun.german: noun for noun in self.nouns}
        self.verbs = [read_verb(line) for line in rules["verbs"]]
        for section in (
            "cities",
            "times",
            "frequencies",
            "clock",
            "manners",
            "numbers",
            "amounts",
            "comparisons",
        ):
            setattr(self, section, [read_pair(line) for line in rules[section]])
        self.places = [self.read_place(line) for line in rules["places"]]
        self.names = [self.read_name(line) for line in rules["names"]]
        self.adjectives = [read_pair(line) for line in rules["adjectives"]]
        self.states = rules["states"]
        self.causes, self.reactions, self.obstacles, self.weather, self.errands = (
            [(head, split(rest, ";")) for head, _, rest in (line.partition(" : ") for line in rules[name])]
            for name in ("causes", "reactions", "obstacles", "weather", "errands")
        )
        self.sentences = dict(self.read_sentence(line) for line in rules["sentences"])
        self.held_out = {
            (verb, noun)
            for line in rules["held out"]
            for verb, nouns in [split(line, ":")]
            for noun in split(nouns, ",")
        }
        self.qualities = [read_pair(line) for line in rules["qualities"]]
        self.determiners = dict(self.read_determiners(line) for line in rules["determiners"])
        self.by_class: dict[str, list[Noun]] = {}
        for noun in self.nouns:
            for name in noun.classes:
                self.by_class.setdefault(name, []).append(noun)
        self.used: Counter[str] = Counter()
        # If verbs share a form, the first one of the grammar.
        self.by_infinitive = {verb.prefix + verb.infinitive: verb for verb in reversed(self.verbs)}
        self.english_forms: dict[str, tuple[str, str, str]] = {}
        for verb in reversed(self.verbs):
            base, past, done = (form.split()[0] for form in verb.english)
            self.english_forms[base] = base, past, done
        # The places and manners that fit a verb, by the verb's remarks.
        self.places_of = {
            verb.remarks: [at for at, _ in self.places if {*at.classes} & {*verb.remarks}] for verb in self.verbs
        }
        self.manners_of = {
            verb.remarks: [pair for pair in self.manners if pair.german.replace(" ", "_") in verb.remarks]
            for verb in self.verbs
        }
        self.times_of: dict[str, list[Pair]] = {}
        for pair in self.times:
            for name in pair.classes:
                self.times_of.setdefault(name, []).append(pair)
        # The verbs to draw from, each as often as its weight.
        self.speakable = [verb for verb in self.verbs if "none" not in verb.subjects for _ in range(verb.weight)]
        self.actors = [verb for verb in self.speakable if "person" in verb.subjects]
        self.marked: dict[str, list[Verb]] = {}
        for verb in self.actors:
            for remark in verb.remarks:
                self.marked.setdefault(remark, []).append(verb)
        # An adjective that suits only few nouns is drawn more often for these, so that no adjective is rare.
        self.fitting = {
            noun: {
                pair: 1 / math.sqrt(len(pair.classes)) for pair in self.adjectives if {*pair.classes} & {*noun.classes}
            }
            for noun in self.nouns
        }

    @staticmethod
    def read_place(line: str) -> tuple[Pair, Pair]:
        where, whither = line.split("|")
        to = read_pair(whither)
        at = read_pair(where)
        return Pair(at.german, at.english, to.classes), to

    @staticmethod
    def read_name(line: str) -> Phrase:
        german, _, english = line.partition("=")
        name, _, gender = german.strip().rpartition(" ")
        other = name.replace("Herr ", "Herrn ")
        said = english.strip() or name
        return Phrase((name, other, other), said, said, ER, gender)

    @staticmethod
    def read_determiners(line: str) -> tuple[str, dict[str, float]]:
        name, choices = split(line, "=")
        return name, {choice.split()[0]: float(choice.split()[1]) for choice in split(choices, ",")}

    @staticmethod
    def read_sentence(line: str) -> tuple[tuple[str, str, str], float]:
        weight, rest = line.split(" : ", 1)
        words, letters = rest.rsplit(" : ", 1)
        german, english = split(words, " = ")
        return (german, english, letters), float(weight)

    # ------ noun phrases

    def adjective(self, noun: Noun, probability: float) -> Pair | None:
        if not self.chance.happens(probability):
            return None
        fitting = self.fitting[noun]
        return self.chance.weighted(fitting) if fitting else None

    def noun_phrase(
        self, noun: Noun, owner: tuple[str, str] | None, avoid: Sequence[str] = (), adjective: float = 0.25
    ) -> Phrase:
        """A noun with a determiner that suits it, and perhaps an adjective."""
        if noun.bare:
            cases = (noun.german,) * 3
            return Phrase(cases, noun.english, noun.english, ER, "n", "bare", noun.german)
        weights = self.determiners[noun.classes[0]]
        if owner is None and "kin" in noun.classes:
            owner = POSSESSIVES[ICH, ""]
        if owner is None:
            avoid = [*avoid, "my", "mys"]
        kept = {name: weight for name, weight in weights.items() if name not in avoid}
        fallback = {"a": 1.0} if "the" in avoid and noun.plural else {"the": 1.0}
        determiner = self.chance.weighted(kept or fallback)
        quality = self.adjective(noun, adjective)
        return self.decline(noun, determiner, quality, owner)

    def decline(self, noun: Noun, determiner: str, quality: Pair | None, owner: tuple[str, str] | None) -> Phrase:
        """All cases of a noun phrase, and its English."""
        plural = determiner in ("thes", "mys", "bares", "two", "many", "nos")
        gender = "p" if plural else noun.gender
        kind = determiner.removesuffix("s") if determiner != "this" else "this"
        number = self.chance.one(self.numbers[:6]) if kind == "two" else None
        holder = self.holder(kind, owner) if kind in ("name", "kin") else None
        cases = []
        for case in CASES:
            if kind in ("the", "kin"):
                words, table = [ending(DEFINITE, gender, case)], WEAK
            elif kind == "name":
                words, table = [holder.german], STRONG
            elif kind == "this":
                words, table = ["dies" + ending(DER_WORD, gender, case)], WEAK
            elif kind in ("a", "my", "no"):
                stem = {"a": "ein", "no": "kein"}.get(kind) or owner[0]
                suffix = ending(EIN_WORD, gender, case)
                stem = "eur" if stem == "euer" and suffix else stem
                words, table = [stem + suffix], MIXED
            else:
                words, table = [number.german] if number else ["viele"] if kind == "many" else [], STRONG
                if kind == "many" and case == "dat":
                    words = ["vielen"]
            words = [mark(word, "owner" if kind == "name" else "determiner") for word in words]
            if quality:
                stem = quality.german.split()[-1]
                stem = stem.removesuffix("e") if stem.endswith("e") else stem
                words.append(mark(stem + ending(table, gender, case), "adjective"))
            words.append(mark(self.noun_form(noun, plural, case), "noun"))
            if kind == "kin":
                words.append(mark(holder.german, "owner"))
            cases.append(" ".join(words))
        english = mark(noun.english_plural if plural else noun.english, "noun")
        english = f"{mark(quality.english, 'adjective')} {english}" if quality else english
        if kind in ("a", "no"):
            before = "any" if kind == "no" and (plural or not noun.plural) else article(english)
        else:
            before = {"the": "the", "this": "this", "many": "many", "bare": ""}.get(kind, "")
            if kind == "my":
                before = owner[1]
            elif number:
                before = number.english
        english = f"{mark(holder.english, 'owner') if holder else mark(before, 'determiner')} {english}".strip()
        person = SIE if plural else ER
        return Phrase(tuple(cases), english, english, person, "" if plural else noun.gender, determiner, noun.german)

    def holder(self, kind: str, owner: tuple[str, str] | None) -> Pair:
        """The owner, in the genitive: "Annas" = "Anna's", "meines Vaters" = "my father's"."""
        if kind == "name":
            name = self.chance.one([name.english for name in self.names[:16] if not name.english.endswith("x")])
            return Pair(f"{name}s", f"{name}'s")
        noun = self.any_of(["kin"])
        stem, my = owner or POSSESSIVES[ICH, ""]
        if noun.gender == "f":
            return Pair(f"{'eur' if stem == 'euer' else stem}er {noun.german}", f"{my} {noun.english}'s")
        suffix = "es" if noun.german == "Sohn" else "s"
        return Pair(f"{'eur' if stem == 'euer' else stem}es {noun.german}{suffix}", f"{my} {noun.english}'s")

    @staticmethod
    def noun_form(noun: Noun, plural: bool, case: str) -> str:
        if plural:
            return noun.plural + ("n" if case == "dat" and not noun.plural.endswith(("n", "s")) else "")
        return noun.weak if noun.weak and case != "nom" else noun.german

    def any_of(self, classes: Sequence[str]) -> Noun:
        """A noun of one of the classes: the least used of three, so that none is rare."""
        nouns = [noun for name in classes for noun in self.by_class[name]]
        drawn = [self.chance.one(nouns) for _ in range(3)]
        noun = min(drawn, key=lambda noun: self.used[noun.german])
        self.used[noun.german] += 1
        return noun

    def person(self, pronouns: bool = True) -> Phrase:
        """Somebody: a pronoun, a name, two names, or a noun."""
        kind = self.chance.weighted({"pronoun": 28 if pronouns else 0, "name": 34, "two": 5, "kin": 16, "noun": 14})
        if kind == "pronoun":
            return PRONOUNS[self.chance.weighted({"I": 10, "he": 4, "she": 5, "we": 6, "you": 2})]
        if kind == "two":
            first = self.chance.one(self.names)
            second = self.chance.one([name for name in self.names[:16] if name != first])
            cases = tuple(listed(one, "und", other) for one, other in zip(first.cases, second.cases, strict=True))
            english = listed(first.english, "and", second.english)
            return Phrase(cases, english, english, SIE, "")
        if kind == "kin":
            return self.noun_phrase(self.any_of(["kin"]), POSSESSIVES[self.chance.one([ICH, ICH, DU, WIR]), ""], (), 0)
        if kind == "noun":
            noun = self.any_of(["person"])
            if noun.classes[0] == "acquaintance":
                return self.noun_phrase(noun, POSSESSIVES[self.chance.one([ICH, WIR]), ""], ["a"])
            return self.noun_phrase(noun, None, ["a", "two"])
        return self.chance.one(self.names)

    def subject(self, verb: Verb) -> Phrase:
        if "child" in verb.remarks and self.chance.happens(0.12):
            return self.noun_phrase(self.any_of(["child"]), None)
        if "person" in verb.subjects:
            return self.person()
        avoid = ["a", "bares", "two", "many", "this"] + (["my", "name", "kin"] if verb.lemma == "gehören" else [])
        return self.noun_phrase(self.any_of(verb.subjects), POSSESSIVES[ICH, ""], avoid)

    # ------ clauses

    def tense(self, verb: Verb, personal: bool) -> str:
        marks = verb.remarks
        if "state" in marks:
            weights = {"present": 6.0}
            weights["since"] = 4.0 if "since" in marks else 0
            weights["past"] = 0 if "noperfect" in marks else 2.0
            return self.chance.weighted(weights)
        if "unwilled" in marks:
            return self.chance.weighted({"past": 5.0, "already": 1.0 if "once" in marks else 0})
        weights = {"past": 9.0, "already": 1.5, "future": 3.0, "going": 2.0}
        if "once" not in marks and personal:
            weights["progressive"] = 4.0
        if "habit" in marks:
            weights["present"] = 8.0
            if personal:
                weights |= {"like": 1.2, "prefer": 0.5}
        if "since" in marks:
            weights["since"] = 3.0
        if personal:
            weights |= {"can": 1.0, "want": 1.3, "may": 0.6, "would": 1.3}
            weights |= {"could": 0.5, "wanted": 0.8, "might": 0.4}
            if "leisure" not in marks:
                weights |= {"must": 2.2, "should": 1.0, "had to": 1.0}
        return self.chance.weighted(weights)

    def clock_time(self) -> Pair:
        """A time of the clock. Half past seven is "halb acht": half of the way to eight."""
        hour = int(self.chance.random() * 12)
        pattern = self.chance.one(self.clock)

        names = [self.numbers[-1], *self.numbers[:-1]]  # one, two ... twelve
        german = names[hour].german
        german = "ein" if german == "eins" and "Uhr" in pattern.german else german
        english = pattern.english.replace("H-1", names[hour - 1].english).replace("H", names[hour].english)
        return Pair(pattern.german.replace("H", german), english)

    def time(self, kind: str, verb: Verb) -> Pair:
        """A time: a day for verbs with an hour, and a month or year only for verbs that take long."""
        fitting = self.times_of[kind]
        if "timed" in verb.remarks and kind in ("past", "future"):
            fitting = [pair for pair in fitting if "daily" in pair.classes]
        elif "long" in verb.remarks and kind in ("past", "future"):
            fitting = self.times_of[f"far-{kind}"]
        elif ("season" if kind == "habit" else "far") in verb.remarks:
            fitting = fitting + 2 * self.times_of.get(f"far-{kind}", [])
        return self.chance.one(fitting)

    def set_time(self, clause: Clause) -> None:
        """Chooses the adverbials that the tense needs."""
        verb, tense, parts, chance = clause.verb, clause.tense, clause.parts, self.chance
        timed = "timed" in verb.remarks
        if tense == "present" and "state" not in verb.remarks:
            if "once" in verb.remarks or (timed and chance.happens(0.6)):
                parts["clock"] = self.clock_time()
                if chance.happens(0.5):
                    parts["frequency"] = chance.one([pair for pair in self.frequencies if pair.german == "meistens"])
                elif chance.happens(0.5):
                    parts["time"] = self.time("habit", verb)
            elif chance.happens(0.55):
                parts["frequency"] = chance.one(self.frequencies)
            else:
                parts["time"] = self.time("habit", verb)
        elif tense == "progressive":
            parts["time"] = Pair("gerade", "") if chance.happens(0.55) else self.time("now", verb)
        elif tense in ("future", "going", "past"):
            if chance.happens({"past": 0.35, "going": 0.4, "future": 0}[tense]):
                return
            kind = "past" if tense == "past" else "future"
            parts["time"] = self.time(kind, verb)
            if timed and not clause.negated and chance.happens(0.7):
                parts["clock"] = self.clock_time()
        elif tense == "can" or (tense in ("must", "should", "would", "want", "may") and chance.happens(0.4)):
            parts["time"] = self.time("future", verb)
        elif tense in ("could", "had to", "wanted", "might") and chance.happens(0.6):
            parts["time"] = self.time("past", verb)
        elif tense == "since":
            number = chance.one(self.numbers[:9])
            unit = chance.one([("Jahren", "years"), ("Monaten", "months"), ("Wochen", "weeks")])
            parts["time"] = Pair(f"seit {number.german} {unit[0]}", f"for {number.english} {unit[1]}")

    def complement(self, clause: Clause, wanted: Complement, avoid: Sequence[str]) -> None:
        """Adds one complement to a clause."""
        chance, parts = self.chance, clause.parts
        name = wanted.classes[0]
        if name == "whither":
            parts["whither"] = chance.one([to for _, to in self.places if to.classes])
            return
        if name in ("city", "incity"):
            city = chance.one(self.cities)
            before = ("nach", "to") if name == "city" else ("in", "in")
            parts["whither"] = Pair(f"{before[0]} {city.german}", f"{before[1]} {city.english}")
            return
        slot = "with" if wanted.preposition else wanted.case
        if slot == "dat" and wanted.english:
            slot = "to"
        phrase = self.object(clause, wanted, avoid)
        german = phrase.german(wanted.case)
        if wanted.preposition:
            before, rest = mark(wanted.preposition, "preposition"), german
            first, _, others = german.partition(" ")
            short = CONTRACTIONS.get(f"{wanted.preposition} {unmarked(first)}")
            if short and phrase.determiner == "the":
                before, rest = mark(short, "preposition+determiner"), others
            german = f"{before} {rest}"
        english = f"{mark(wanted.english, 'preposition')} {phrase.english_object}".strip()
        parts[slot] = Pair(german, english, (phrase.determiner,))
        if phrase.pronoun and not wanted.preposition:
            clause.pronouns += (slot,)
        if phrase.noun:
            clause.combinations += ((clause.verb.lemma, phrase.noun),)

    def object(self, clause: Clause, wanted: Complement, avoid: Sequence[str]) -> Phrase:
        """The person or thing that is the object; not the same person as the subject."""
        chance, subject = self.chance, clause.subject
        if "known" in wanted.classes and chance.happens(0.55):
            names = [name for name in self.names if name.cases[0] not in unmarked(subject.cases[0])]
            # "sie" as an object could be she or they, so the accusative has only unambiguous pronouns.
            clear = ["I", "you", "he", "we"] + (["she", "they"] if wanted.case == "dat" else [])
            others = [PRONOUNS[key] for key in clear]
            # Nobody says "I ask us" or "you ask you".
            near = next((pair for pair in ((ICH, WIR), (DU, IHR)) if subject.person in pair), ())
            others = [other for other in others if other.person not in near and subject.person < SIE]
            if others and chance.happens(0.3):
                return chance.one(others)
            return chance.one(names)
        return self.noun_phrase(self.any_of(wanted.classes), subject.owner, avoid)

    def clause(
        self, subject: Phrase | None = None, tense: str = "", negation: float = 0.13, remark: str = ""
    ) -> Clause:
        """A clause about anything, or with a verb that has the remark."""
        chance = self.chance
        verb = chance.one(self.marked[remark] if remark else self.actors if subject else self.speakable)
        subject = subject or self.subject(verb)
        personal = "person" in verb.subjects and "happens" not in verb.remarks
        clause = Clause(verb, subject, tense or self.tense(verb, personal))
        avoid = UNUSUAL.get(clause.tense, [])
        if "state" in verb.remarks:
            avoid = ["many", "two"]
        if "definite" in verb.remarks:
            avoid = ["a", "bare", "bares", "two", "many"]
        elif "indefinite" in verb.remarks:
            avoid = [*avoid, "my", "mys", "name", "kin"]
            avoid += [] if clause.tense in ("past", "already") else ["the", "thes"]
        unmarked = clause.tense == "present" and "state" in verb.remarks
        if unmarked or clause.tense not in ("present", "like", "prefer", "since", "progressive", "already"):
            clause.negated = chance.happens(negation)
        if clause.negated:
            avoid = [*avoid, "two", "many", "this"]
        if "another" in verb.remarks:
            avoid = [*avoid, "my", "mys"]
        if "own" in verb.remarks:
            avoid = [*avoid, "name", "kin"]
        for wanted in verb.complements:
            on = ["two", "many", "bares", "thes", "my"] if wanted.preposition in ("auf", "in") else []
            self.complement(clause, wanted, [*avoid, *on] if "known" not in wanted.classes else avoid)
        self.set_time(clause)
        self.set_place(clause)
        self.negate(clause)
        return clause

    def set_place(self, clause: Clause) -> None:
        """Perhaps adds a place or a manner."""
        chance, parts, marks = self.chance, clause.parts, clause.verb.remarks
        places, manners = self.places_of[marks], self.manners_of[marks]
        if clause.subject.person < WIR:
            manners = [pair for pair in manners if pair.german != "zusammen"]
        if clause.tense in ("since", "already") or "clock" in parts:
            places, manners = [], []
        if clause.tense == "since" and "incity" in marks:
            city = chance.one(self.cities)
            parts["place"] = Pair(f"in {city.german}", f"in {city.english}")
        if clause.negated or clause.tense == "command":
            manners = []
        if manners and chance.happens(0.35):
            parts["manner"] = chance.one(manners)
        elif places and chance.happens(0.4):
            parts["place"] = chance.one(places)
        if clause.tense == "like":
            parts["gern"] = Pair("gern", "")
        if clause.tense == "prefer":
            parts["gern"] = Pair("lieber", "")
        if clause.tense == "already":
            if chance.happens(0.5):
                clause.negated = True
                parts["not"] = Pair("noch nicht", "")
                parts["yet"] = Pair("", "yet")
            else:
                parts["schon"] = Pair("schon", "already")

    def negate(self, clause: Clause) -> None:
        """Negates with "kein" if the object is indefinite, else with "nicht"."""
        if not clause.negated or "not" in clause.parts:
            return
        pair = clause.parts.get("acc")
        determiner = pair.classes[0] if pair and pair.classes else ""
        noun = self.by_name[clause.combinations[-1][1]] if pair and clause.combinations else None
        if determiner == "a":
            clause.parts["acc"] = Pair(f"k{pair.german}", pair.english, ("no",))
        elif noun and "language" in noun.classes:
            clause.parts["acc"] = Pair(f"{mark('kein', 'determiner')} {pair.german}", pair.english, ("no",))
        elif noun and determiner in ("bare", "bares") and not noun.bare:
            phrase = self.decline(noun, determiner.replace("bare", "no"), None, None)
            clause.parts["acc"] = Pair(phrase.german("acc"), phrase.english, ("no",))
        else:
            clause.parts["not"] = Pair("nicht", "")

    # ------ the kinds of clauses in the sentence patterns

    def phrase_clause(self, words: str, subject: Phrase, tense: str) -> Clause:
        """A clause from fixed words: "früh ins Bett gehen = go to bed early"."""
        pair = read_pair(words)
        *fixed, infinitive = pair.german.split()
        base, _, rest = pair.english.partition(" ")
        verb, english = self.by_infinitive[infinitive], self.english_forms[base]
        verb = dataclasses.replace(verb, english=english, complements=(), remarks=(), reflexive=False)
        return Clause(verb, subject, tense, {"predicate": Pair(" ".join(fixed), rest)})

    def until(self, draw: Callable[[], Clause], fits: Callable[[Clause], bool]) -> Clause:
        """Draws again until the clause fits."""
        while not fits(clause := draw()):
            pass
        return clause

    def name(self) -> Phrase:
        return self.chance.one(self.names)

    def asked(self, subject: Phrase | None = None, remark: str = "") -> Clause:
        """A clause for a question: mostly about the listener."""

        def draw() -> Clause:
            who = subject or (PRONOUNS["you"] if self.chance.happens(0.6) else self.person(pronouns=False))
            return self.clause(subject=who, negation=0, remark=remark)

        return self.until(draw, lambda clause: clause.tense not in ("wanted", "might", "could", "prefer", "should"))

    def command(self, subject: Phrase) -> Clause:
        """A clause for a request or an order."""
        return self.until(
            lambda: self.clause(subject=subject, tense="command", negation=0, remark="chore"),
            lambda clause: not clause.pronouns and not (subject.person == IHR and self.about_kin(clause)),
        )

    def state(self, subject: Phrase | None = None) -> Clause:
        words = self.chance.one(self.states)
        return self.phrase_clause(words, subject or self.person(), self.chance.one(["present", "was"]))

    def cause(self, rules: list[tuple[str, list[str]]], habitual: bool = False) -> list[Clause]:
        """A state and its consequence: wanted now, done in the past, or always true."""
        head, effects = self.chance.one(rules)
        words = next(state for state in self.states if state.startswith(head + " ="))
        subject = self.person()
        if habitual:
            state_tense, tense = "present", "present"
        else:
            tenses = [("was", "past"), ("was", "past"), ("present", "going")]
            if rules != self.reactions:  # nobody wishes for an involuntary reaction
                tenses.append(("present", "would"))
            state_tense, tense = self.chance.one(tenses)
        return [
            self.phrase_clause(words, subject, state_tense),
            self.phrase_clause(self.chance.one(effects), subject, tense),
        ]

    def relative(self, who: bool) -> tuple[Phrase, Pair]:
        """A noun with its relative clause: the noun is the subject or the object of the clause."""
        if who:
            noun = self.any_of(["person"])
            phrase = self.noun_phrase(noun, POSSESSIVES[ICH, ""], ["a", "two", "mys", "thes"])
            clause = self.until(
                lambda: self.clause(subject=phrase, negation=0),
                lambda clause: clause.tense in ("past", "must", "want", "going", "since") and not clause.negated,
            )
            words = clause.german("last", without=["subject"])
            relative = DEFINITE[noun.gender][0]
            self.noted = clause.combinations
            words, english = f"{mark(relative, 'relative')} {words}", clause.english(without=["subject"])
            return phrase, Pair(words, f"{mark('who', 'relative')} {english}")
        clause = self.until(
            lambda: self.clause(remark="remains", tense="past", negation=0),
            lambda clause: self.has_thing(clause) and clause.parts["acc"].classes[0] in ("a", "the"),
        )  # fmt: skip
        noun = self.by_name[clause.combinations[-1][1]]
        relative = DEFINITE[noun.gender][1]
        self.noted = clause.combinations
        phrase = self.decline(noun, "the", None, None)
        words, english = clause.german("last", without=["acc"]), clause.english(without=["acc"])
        return phrase, Pair(f"{mark(relative, 'relative')} {words}", f"{mark('that', 'relative')} {english}")

    def others(self) -> Clause:
        """A clause about a third person."""
        return self.clause(subject=self.person(pronouns=False), negation=0)

    @staticmethod
    def has_day(clause: Clause) -> bool:
        """Whether a question with "wann" is possible: there is a time, but no time of the clock."""
        timed = "time" in clause.parts and "clock" not in clause.parts
        return timed and clause.tense in ("past", "future", "going")

    def about_kin(self, clause: Clause) -> bool:
        """Whether a relative is mentioned, so that not everybody can say it."""
        return any("kin" in self.by_name[noun].classes for _, noun in clause.combinations)

    def has_thing(self, clause: Clause) -> bool:
        """Whether the object is a thing, so that the question is "was" and the relative pronoun "that"."""
        if "acc" not in clause.parts or not clause.combinations:
            return False
        noun = self.by_name[clause.combinations[-1][1]]
        return not {"person", "kin", "animal", "acquaintance"} & set(noun.classes) and not noun.bare

    # ------ sentences

    def letter(self, kind: str) -> list[Clause | Phrase | Pair]:
        """The clauses, phrases and words for the letters of a sentence pattern."""
        chance, clause = self.chance, self.clause
        part = kind.removeprefix("has-")
        match kind:
            case "action":
                return [clause()]
            case "others":
                return [self.others()]
            case "fronted":
                return [self.until(clause, lambda drawn: self.front(drawn) != "")]
            case "asked":
                return [self.asked()]
            case "asked-children":
                return [self.asked(PRONOUNS["children"])]
            case "asked-formal":
                return [self.asked(PRONOUNS["formal"])]
            case "asked-state":
                words = chance.one(self.states)
                return [self.phrase_clause(words, chance.one([PRONOUNS["you"], self.name()]), "present")]
            case "who":
                who = Phrase(("wer", "wen", "wem"), "who", "who", ER, "", pronoun=True)
                return [self.until(lambda: clause(subject=who, negation=0), lambda drawn: drawn.tense != "already")]
            case "has-time":
                return [self.until(self.asked, self.has_day)]
            case "others-time":
                return [self.until(self.others, self.has_day)]
            case "others-place":
                return [self.until(self.others, lambda c: "place" in c.parts)]
            case "has-city":
                lives = [verb for verb in self.actors if verb.lemma in ("wohnen", "studieren")]
                return [self.until(self.asked, lambda c: c.verb in lives and c.tense == "present")]
            case "has-clock":
                return [
                    self.until(
                        lambda: self.asked(remark="timed"),
                        lambda c: "clock" in c.parts and c.tense != "future",
                    )
                ]
            case "has-place" | "has-whither":
                return [
                    self.until(self.asked, lambda c: part in c.parts and c.verb.lemma not in ("wohnen", "studieren"))
                ]
            case "has-thing":
                return [self.until(lambda: self.asked(remark="what"), self.has_thing)]
            case "has-known":
                fits = lambda c: "acc" in c.parts and not c.pronouns and not self.has_thing(c)  # noqa: E731
                return [self.until(self.asked, lambda c: fits(c) and "known" in c.verb.complements[0].classes)]
            case "has-helped":
                return [self.until(self.asked, lambda c: "dat" in c.parts and not c.pronouns and "acc" not in c.parts)]
            case "cause" | "habitual-cause":
                rules = self.reactions if chance.happens(0.25) else self.causes
                return list(self.cause(rules, habitual=kind != "cause"))
            case "obstacle":
                return list(self.cause(self.obstacles))
            case "weather" | "past-weather":
                (forms, effects), past = chance.one(self.weather), kind == "past-weather"
                german, english = forms.split("=")
                said = Pair(split(german, "|")[past], split(english, "|")[past])
                return [
                    said,
                    self.phrase_clause(chance.one(effects), self.person(), "past" if past else "present"),
                ]
            case "errand":
                place, goals = chance.one(self.errands)
                to = next(to for _, to in self.places if to.german == place)
                subject, tense = self.person(), chance.one(["past", "would", "had to", "going", "must"])
                going = next(verb for verb in self.verbs if verb.lemma == "gehen")
                goal = self.phrase_clause(chance.one(goals), subject, "present")
                return [Clause(going, subject, tense, {"whither": to}), goal]
            case "sequence":
                first = self.until(
                    lambda: clause(tense="past", negation=0, remark="habit"),
                    lambda c: c.subject.gender != "n",
                )
                first.parts.pop("time", None)
                first.parts.pop("clock", None)
                second = self.until(
                    lambda: clause(tense="past", subject=first.subject.taken_up(), negation=0, remark="habit"),
                    lambda c: c.verb.infinitive != first.verb.infinitive,
                )
                second.parts.pop("time", None)
                second.parts.pop("clock", None)
                return [first, second]
            case "saying":
                person = self.name()
                said = clause(subject=person.taken_up() if chance.happens(0.4) else None)
                return [person, said] if said.subject != person else self.letter(kind)
            case "task":
                person = self.name()
                drawn = self.until(
                    lambda: clause(subject=person, tense="command", negation=0, remark="chore"),
                    lambda c: not c.pronouns,
                )
                drawn.parts.pop("time", None)
                return [person, drawn]
            case "command":
                return [self.command(PRONOUNS["you"])]
            case "command-children":
                return [self.command(PRONOUNS["children"])]
            case "titled-command":
                return [chance.one(self.names[16:]), self.command(PRONOUNS["formal"])]
            case "state":
                return [self.state()]
            case "quality":
                quality = chance.one(self.qualities)
                noun = self.any_of(quality.classes)
                phrase = self.noun_phrase(noun, POSSESSIVES[ICH, ""], ["a", "bare", "bares", "two", "many", "thes"], 0)
                how = chance.one([Pair("zu", "too"), Pair("sehr", "very"), Pair("nicht", "not")])
                german = f"{mark(how.german, 'degree')} {mark(quality.german, 'quality')}"
                return [phrase, Pair(german, f"{mark(how.english, 'degree')} {mark(quality.english, 'quality')}")]
            case "who-relative" | "that-relative":
                return list(self.relative(kind.startswith("who")))
            case "clock":
                time = self.clock_time()
                return [Pair(time.german.removeprefix("um "), time.english.removeprefix("at "))]
            case "first-name":
                return [chance.one(self.names[:16])]
            case "ware":
                return [self.decline(self.any_of(["ware"]), chance.one(["the", "this"]), None, None)]
            case "pleasing":
                noun = self.any_of(["clothing", "watched", "song", "readable", "picture", "building", "furniture"])
                quality = self.adjective(noun, 0.3)
                return [self.decline(noun, chance.one(["the", "this"]), quality, None)]
            case "amount":
                return [chance.one([*self.numbers[8:-1], *self.amounts])]
            case "chore":
                return [self.command(PRONOUNS["I"])]
            case "duty":
                return [self.command(dataclasses.replace(PRONOUNS["he"], gender=""))]
            case "comparison":
                quality = chance.one(self.comparisons)
                if quality.classes[0] == "name":
                    first, second = self.name(), self.name()
                    while second == first:
                        second = self.name()
                    return [first, quality, second]
                nouns = self.by_class[quality.classes[0]]
                first = self.decline(chance.one(nouns), "the", None, None)
                second = self.decline(
                    chance.one([noun for noun in nouns if noun.german != first.noun]), "the", None, None
                )
                return [first, quality, second]
            case "name":
                return [self.name()]
            case "titled":
                return [chance.one(self.names[16:])]
            case "number":
                return [chance.one(self.numbers[:-1])]
        raise ValueError(f"no such kind of clause: {kind}")

    @staticmethod
    def front(clause: Clause) -> str:
        """The adverbial that may come first."""
        if clause.parts.get("time", Pair("", "")).english:
            return "time"
        return "place" if "place" in clause.parts and clause.tense == "past" else ""

    def sentence(self) -> tuple[set[tuple[str, str]], Callable[[], tuple[str, str]]]:
        """The pairs of verb and object in a sentence, and a function that writes it in German and in English."""
        german, english, letters = self.chance.weighted(self.sentences)
        meaning: dict[str, Clause | Phrase | Pair] = {}
        self.noted: tuple[tuple[str, str], ...] = ()
        for part in split(letters, ","):
            names, kind = part.split()
            meaning |= dict(zip(names, self.letter(kind), strict=True))
        for name, said in list(meaning.items()):
            # If the same person comes again in the next clause, it is a pronoun.
            if name in "ECB" and isinstance(said, Clause):
                first = re.search(r"\{(\w)", german).group(1)
                if first != name and first in meaning and isinstance(meaning[first], Clause):
                    said.subject = said.subject.taken_up()

        def fill(side: str, text: str) -> str:
            def say(found: re.Match[str]) -> str:
                return mark(said_as(meaning[found.group(1)], found.group(2).split()), found.group(1))

            def said_as(said: Clause | Phrase | Pair, how: list[str]) -> str:
                without = [word[1:] for word in how if word.startswith("-")]
                order = next((word for word in how if not word.startswith("-")), "")
                if isinstance(said, Pair):
                    return said.german if side == "german" else said.english
                if isinstance(said, Phrase):
                    return mark(said.german(order or "nom") if side == "german" else said.english, "phrase")
                front = self.front(said) if order == "fronted" else ""
                if side == "german":
                    if order == "zu":
                        return said.german_infinitive()
                    if order == "command":
                        return said.german_command()
                    return said.german("second" if order == "fronted" else order, front, without)
                if order == "base":
                    return said.english_base()
                if order == "zu":
                    return f"{mark(mark('to', 'zu'), 'verb')} {said.english_base()}"
                if order == "command":
                    return f"{mark('please', 'bitte')} {said.english_base()}"
                return said.english(order == "do", front, without)

            text = re.sub(r"\{(\w)([^}]*)\}", say, text)
            return text[0].upper() + text[1:]

        combinations = set(self.noted)
        for said in meaning.values():
            if isinstance(said, Clause) and "-acc" not in german:  # a question about the object does not name it
                combinations |= set(said.combinations)
        return combinations, lambda: (fill("german", german), fill("english", english))


# ----------------------------------------------------------------------------------------------- the corpus


def corpus(grammar: pathlib.Path, seed: int, sizes: dict[str, int]) -> dict[str, list[tuple[str, str]]]:
    """Fills the splits with marked sentences. No sentence occurs twice, on either side, and all words are known from
    training."""
    writer = Writer(grammar, seed)
    translations: dict[str, str] = {}
    english_seen: set[str] = set()
    known: Counter[str] = Counter()  # how often training has a word
    splits: dict[str, list[tuple[str, str]]] = {}
    for name, size in sizes.items():
        pairs = splits[name] = []
        while len(pairs) < size:
            combinations, say = writer.sentence()
            if (name == "compositional") != bool(combinations & writer.held_out):
                continue
            marked = say()
            german, english = map(unmarked, marked)
            if translations.setdefault(german, english) != english:
                raise ValueError(f"two translations of {german!r}: {translations[german]!r}, {english!r}")
            if english in english_seen:
                continue
            words = re.findall(r"[\w'-]+", f"{german} {english}")
            if name == "train":
                known.update(words)
            elif any(known[word] < SEEN for word in words):
                continue
            pairs.append(marked)
            english_seen.add(english)
    return splits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=pathlib.Path, default=HERE, help="folder of the files")
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in corpus(HERE / "grammar.txt", SEED, SIZES).items():
        for language, side in (("de", 0), ("en", 1)):
            text = "".join(unmarked(pair[side]) + "\n" for pair in pairs)
            (folder / f"{name}.{language}").write_text(text, encoding="utf-8", newline="\n")
        if name != "train":
            text = "".join(alignment(*pair) + "\n" for pair in pairs)
            (folder / f"{name}.alignments").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
