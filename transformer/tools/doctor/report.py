"""The doctor's report: as plain data, and as a table for reading."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from transformer.data.config import SPLITS, DataSettings
from transformer.data.datamodule import TranslationData
from transformer.printing import console, key_of, print_safely, quoted, script_command, shell_word
from transformer.tools.doctor.check_corpus import Examination
from transformer.tools.doctor.checks import CHECKS
from transformer.training.summary import unknown_share

Report = dict[str, Any]


def findings_as_dicts(examination: Examination) -> list[dict[str, Any]]:
    """One dict per finding, those of train first; none for checks that found nothing."""
    languages = examination.settings.languages
    return [
        {
            "check": finding.check.name,
            "split": finding.split,
            "pairs": finding.pairs,
            "share": finding.pairs / examination.pairs[finding.split],
            "sides": dict(zip(languages, finding.sides, strict=True)),
            "lines": finding.lines,
            "example": finding.example,
            "dropped": finding.check.drops and finding.split == "train",
            "means": finding.check.means,
        }
        for finding in examination.findings
        if finding.pairs
    ]


def unknown_shares(data: TranslationData) -> dict[str, dict[str, float]]:
    """The share of tokens that the tokenizer does not know, by split and language."""
    shares = {}
    for name, (corpus, _) in data.all_splits.items():
        sides = data.split(name).source, data.split(name).target
        shares[name] = {
            language: unknown_share(side.ids) for language, side in zip(corpus.languages, sides, strict=True)
        }
    return shares


def _share(value: float) -> str:
    """A percentage; one above 0 is never rounded to 0."""
    return f"{value:.1%}" if value >= 0.0005 else f"{value:.2%}" if value >= 0.00005 else "<0.01%"


def _show_training(report: Report, out: Console) -> None:
    tokenizer = report["tokenizer"]
    if "error" in tokenizer:
        out.print(f"\nthis corpus cannot be used for training: {tokenizer['error']}")
        return
    unknown = [
        f"{split} {language} {_share(share)}"
        for split, shares in tokenizer["unknown"].items()
        for language, share in shares.items()
        if share
    ]
    pieces = f"{tokenizer['kind']}, {tokenizer['size']:,} pieces"
    out.print(f"\nunknown tokens ({pieces}): {', '.join(unknown) or 'none'}")
    if report["advice"]:
        out.print(report["advice"])
    for note in report["writing"]:
        out.print(note)
    if run := report["run"]:
        epochs = f"{run['epochs']:,.1f}".removesuffix(".0")
        out.print(f"a run: {run['steps']:,} steps, about {epochs} epochs")


def show(report: Report) -> None:
    """Prints the report."""
    out = console()
    corpus = report["corpus"]
    counts = ", ".join(f"{split} {count:,}" for split, count in corpus["pairs"].items())
    directions = ", ".join(direction.replace("-", " → ") for direction in corpus["directions"])
    print_safely(f"{corpus['name']}: {directions}, pairs: {counts}")
    for line in report["cut"]:
        out.print(line)
    table = Table(box=SIMPLE, pad_edge=False)
    for heading, side in (("check", "left"), ("split", "left"), ("pairs", "right"), ("share", "right")):
        table.add_column(heading, justify=side, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("lines of the splits" if report["cut"] else "lines")
    for finding in report["findings"]:
        one_sided = [f"{language} {count:,}" for language, count in finding["sides"].items() if count]
        sides = f"{', '.join(one_sided)}: " if min(finding["sides"].values()) < finding["pairs"] else ""
        more = ", …" if finding["pairs"] > len(finding["lines"]) else ""
        where = f"{sides}{', '.join(map(str, finding['lines']))}{more}"
        mark = "✗ " if finding["dropped"] else "  "
        table.add_row(
            mark + finding["check"], finding["split"], f"{finding['pairs']:,}", _share(finding["share"]), where
        )
    if report["findings"]:
        out.print(table)
    meanings = {finding["check"]: finding["means"] for finding in report["findings"]}
    for name, meaning in meanings.items():
        out.print(f"{name}: {meaning}")
    if clean := [check.name for check in CHECKS if check.name not in {*meanings, *report["unseen"]}]:
        out.print(f"nothing found: {', '.join(clean)}")
    for fault in report["languages"]:
        out.print(f"✗ {fault}")
    for path in report["byte_order_marks"]:
        out.print(f"{path} begins with a byte order mark: removed on reading")
    if report["dropped"]:
        names = ("train", *(f"train.{direction}" for direction in corpus["directions"]))
        train = sum(corpus["pairs"].get(name, 0) for name in names)
        out.print(f"✗ {report['dropped']:,} of {train:,} training pairs have such a fault")
        if report["dropped"] == train:
            out.print("a cleaned copy would have no pair: correct the faults above in the source of the corpus")
    _show_training(report, out)


# Settings that name the corpus: a cleaned copy needs others.
CORPUS_SETTINGS = {
    *("data", "data.extra_tests"),
    *(f"data.{name}" for name in ("directory", "pairs", *SPLITS, "split", "columns", "fold")),
}


def next_command(
    typed: Sequence[str],
    settings: Sequence[str],
    corpus: DataSettings,
    fix: Path | None,
    clean: bool,
) -> str:
    """The next command to type: for a cleaned copy, if `clean`, or for training.

    `typed` are the arguments of this command, and `settings` the same for training.
    """
    if clean and fix is None:
        return " ".join([script_command("doctor"), *typed, "--fix CLEANED"])
    keys = {key_of(override) for override in settings}
    if fix is None:
        return " ".join([script_command("train"), *map(shell_word, settings)])
    named = {f"data.{split}": quoted(str(fix / split)) for split in SPLITS}
    named |= {f"data.{side}_language": getattr(corpus, f"{side}_language") for side in ("source", "target")}
    named |= {f"+data.extra_tests.{split}": quoted(str(fix / split)) for split in corpus.extra_tests}
    # If the preset of the corpus has them: data=files does not.
    named |= {
        f"data.{key}": quoted(value)
        for key, value in (("license", corpus.license), ("home", corpus.home))
        if value and f"data.{key}" not in keys
    }
    rest = [
        override
        for override in settings
        if key_of(override) not in {*CORPUS_SETTINGS, *named} and not key_of(override).startswith("data.extra_tests.")
    ]
    arguments = ["data=files", *(f"{key}={value}" for key, value in named.items()), *rest]
    return " ".join([script_command("train"), *map(shell_word, arguments)])


def show_next(
    report: Report,
    typed: Sequence[str],
    settings: Sequence[str],
    corpus: DataSettings,
    fix: Path | None,
) -> None:
    """Prints what to do next: `next_command`, or a remedy that is no command."""
    clean = report["can_be_cleaned"]
    if report["swapped"]:
        print_safely("", "Next: correct --source and --target, or data.columns (✗ above)")
    elif clean or "error" not in report["tokenizer"]:  # otherwise no command can train on it
        print_safely("", "Next:", f"  {next_command(typed, settings, corpus, fix, clean)}")
