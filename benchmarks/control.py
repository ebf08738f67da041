"""BLEU with kept strings, with a glossary, and for typed variants: python benchmarks/control.py CHECKPOINT PREFIX

PREFIX.de and PREFIX.en (the languages of the model; also .gz, or a table) have sentences and their references, which
the model has not seen. Every row is BLEU (sacrebleu) of translations by beam search:

- kept strings: with placeholders, and without;
- variants of the sources (without punctuation at their ends, in small letters), each unchanged and with a remedy of a
  user (a full stop added at the end, a capital at the beginning);
- a glossary: the `--terms` rarest words that translate each other in the test's pairs. A term is used if the
  translation contains it. The words alone are translated too: the share of them that become their term.
"""

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from transformer.data.aligner import bare_word, word_alignments
from transformer.data.text_files import Pair, find_files, read_pairs
from transformer.data.variants import SENTENCE_ENDS, Dictionary
from transformer.evaluation.metrics import bleu
from transformer.inference.loading import load_translator
from transformer.inference.settings import SearchSettings, TranslatorSettings
from transformer.inference.translator import Translator


def score(translator: Translator, sources: Sequence[str], references: Sequence[str]) -> float:
    found = translator.translate(sources)
    return float(bleu(translator.target_language).corpus_score(found, [list(references)]).score)


def without_end(text: str) -> str:
    return text.rstrip(SENTENCE_ENDS).rstrip() or text


def rare_terms(pairs: Sequence[Pair], count: int) -> dict[str, str]:
    """Source words, as they are written in the text, and their translations in the references, rarest first."""
    alignments = word_alignments(pairs)
    dictionary, terms = Dictionary(pairs, alignments), dict[str, str]()
    for pair, links in zip(pairs, alignments, strict=True):
        source, target = (text.split() for text in pair)
        for place, other in dictionary.sure(pair, links):
            word, translation = bare_word(source[place]), bare_word(target[other])
            if word.lower() != translation.lower():
                terms.setdefault(word, translation)
    return dict(sorted(terms.items(), key=lambda term: dictionary.counts[term[0].lower()])[:count])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path, help="a run's folder, .safetensors or .ckpt")
    parser.add_argument("prefix", help="the PREFIX of the files with the sentences and their references")
    parser.add_argument("--terms", type=int, default=500, help="the number of terms of the glossary (default: 500)")
    parser.add_argument("--source", help="the language of the sentences, for a model of several directions")
    arguments = parser.parse_args()
    settings = TranslatorSettings(source_language=arguments.source)
    translator = load_translator([arguments.checkpoint], settings)
    translator.warns_of_lines = translator.warns_of_sources = False
    languages = translator.languages
    pairs = list(read_pairs(find_files(arguments.prefix, *languages), *languages))
    sources, references = zip(*pairs, strict=True)

    def row(name: str, value: float, detail: str = "") -> None:
        print(f"{name:<44} {value:5.1f}  {detail}", flush=True)

    started = time.perf_counter()
    plain = score(translator, sources, references)
    row("as it is", plain, f"{time.perf_counter() - started:.0f} s for {len(pairs):,} sentences")
    unkept = load_translator([arguments.checkpoint], settings)
    unkept.warns_of_lines = unkept.warns_of_sources = False
    unkept.keeper = None
    started = time.perf_counter()
    row("nothing kept", score(unkept, sources, references), f"{time.perf_counter() - started:.0f} s")
    started = time.perf_counter()
    found = translator.translate(sources, SearchSettings(no_repeat=0))
    value = float(bleu(translator.target_language).corpus_score(found, [list(references)]).score)
    row("loops stay (no_repeat=0)", value, f"{time.perf_counter() - started:.0f} s")

    bare, targets = [without_end(one) for one in sources], [without_end(one) for one in references]
    row("without marks at the end", score(translator, bare, targets))
    stopped = [without_end(one) for one in translator.translate([f"{one}." for one in bare])]
    treated = float(bleu(translator.target_language).corpus_score(stopped, [targets]).score)
    row("  a full stop put behind, and taken away", treated)
    small = [one.lower() for one in sources]
    row("in small letters", score(translator, small, references))
    row("  a capital put at the beginning", score(translator, [one[:1].upper() + one[1:] for one in small], references))
    terms = rare_terms(pairs, arguments.terms)

    def share_of_terms(found: Sequence[str]) -> float:
        meant = zip(found, terms.values(), strict=True)
        return 100 * sum(bare_word(one).lower() == term.lower() for one, term in meant) / len(terms)

    row("% of the glossary's words alone", share_of_terms(translator.translate([*terms])))
    row("  a full stop put behind, and taken away", share_of_terms(translator.translate([f"{one}." for one in terms])))

    any_term = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, terms))})(?!\w)")
    chosen = [pair for pair in pairs if any_term.search(pair[0])]
    for name, one in (("without the glossary", translator), ("with the glossary", translator.keeping(glossary=terms))):
        outputs = one.translate([source for source, _ in chosen])
        wanted = used = 0
        for (source, _), output in zip(chosen, outputs, strict=True):
            for term in any_term.findall(source):
                wanted += 1
                used += bool(re.search(rf"(?<!\w){re.escape(terms[term])}(?!\w)", output, re.IGNORECASE))
        value = float(bleu(translator.target_language).corpus_score(outputs, [[target for _, target in chosen]]).score)
        row(f"{name}, {len(chosen):,} sentences", value, f"{used:,} of {wanted:,} terms used")


if __name__ == "__main__":
    main()
