"""`translator doctor`: examines a corpus before training."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from transformer.cli.app import Flags
from transformer.cli.places import check_can_be_written, check_output_file
from transformer.cli.runs import check_init_from
from transformer.config import PATH, Settings, UsageError
from transformer.printing import key_of, quoted, shell_word
from transformer.training.sizing import choose


@dataclass(frozen=True)
class DoctorSettings(Settings):
    """The languages, and the files to write."""

    source: str | None = None
    """the language to translate from; de for the bundled corpus"""
    target: str | None = None
    """the language to translate into; en for the bundled corpus"""
    output: Annotated[str, PATH] | None = None
    """FILE.json: the report for programs"""
    fix: Annotated[str, PATH] | None = None
    """a new folder for a cleaned copy of the corpus; its dropped.tsv lists the dropped pairs with reasons"""


def doctor(*words: str, settings: Flags[DoctorSettings] = DoctorSettings()) -> None:
    """Checks a corpus before training: its faults, and the settings that suit it.

    Parameters
    ----------
    words
        a file of pairs, or settings in the form of train: data=multi30k; without any, the bundled corpus
    """
    typed = [word for word in words if "=" in word and not Path(word).exists()]
    if len(pairs := [word for word in words if word not in typed]) > 1:
        raise UsageError(f"{pairs[1]}: give only one file of pairs; for two files write data=files data.pairs=PREFIX")
    if settings.output:
        check_output_file(settings.output, [".json"])
    if settings.fix:
        check_can_be_written(Path(settings.fix), "--fix")

    from transformer.cli.compose import compose
    from transformer.cli.train import choose_for_corpus, model_settings, of_run, read_run_settings

    languages = {"source": settings.source, "target": settings.target}
    typed = [
        *(item for path in pairs for item in ("data=files", f"data.pairs={quoted(path)}")),
        *(f"data.{side}_language={language}" for side, language in languages.items() if language),
        *typed,
    ]
    given = of_run(compose(*typed))
    read = read_run_settings(choose(given)[0])
    check_init_from(read.init_from)
    if not read.data.url:
        read.data.check_files()

    from transformer.files import write_json
    from transformer.tools.doctor.examine import examine
    from transformer.tools.doctor.fix import check_new
    from transformer.tools.doctor.plan import Plan
    from transformer.tools.doctor.report import show, show_next

    fix = Path(settings.fix) if settings.fix else None
    if fix:
        check_new(fix)
    run, chosen = choose_for_corpus(given)
    plan = Plan(read_run_settings(run), model_settings(run, [*map(key_of, typed)]), chosen)
    report = examine(plan, fix)
    if settings.output:
        write_json(Path(settings.output), report)
    show(report)
    flags = [word for side, language in languages.items() if language for word in (f"--{side}", language)]
    show_next(report, [*map(shell_word, [*words, *flags])], typed, read.data, fix)
