"""Directions: the source language and the target language, by their names in settings."""

import re
from collections.abc import Sequence

from transformer.printing import shortened

Direction = tuple[str, str]  # source language, target language
# Names of languages and of splits, which become parts of file names.
NAME, NAME_RULE = re.compile(r"\w[\w.-]{,63}"), "at most 64 letters, digits and .-_"


def check_language(name: str) -> None:
    """Raises ValueError for text that cannot be the name of a language."""
    if not NAME.fullmatch(name):
        raise ValueError(f"the language {shortened(name)} must be {NAME_RULE}")


def parse_direction(text: str, setting: str) -> Direction:
    """`de-en` as ("de", "en"). Raises ValueError, with the `setting`, for other text."""
    source, *targets = text.split("-")
    if len(targets) != 1 or not NAME.fullmatch(source) or not NAME.fullmatch(targets[0]) or source == targets[0]:
        raise ValueError(
            f"{setting}: {shortened(text)} must be two languages with one '-' between them: de-en, zh_Hans-en (write _ "
            "in a language's own name)"
        )
    return source, targets[0]


def direction_name(direction: Direction) -> str:
    """The name in settings and files: de-en."""
    return "-".join(direction)


def arrow(*directions: Direction) -> str:
    """For people: de → en, en → fr."""
    return ", ".join(" → ".join(direction) for direction in directions)


def choose_direction(directions: Sequence[Direction], source: str | None, target: str | None) -> Direction:
    """The first of the learned `directions` with this source or target language, or with both. If both are given, it
    may also be a direction that was not learned, from one of the source languages to one of the target languages
    (zero-shot, Johnson et al. 2017).

    Raises ValueError for languages that the model has not learned.
    """
    for direction in directions:
        if source in (None, direction[0]) and target in (None, direction[1]):
            return direction
    sources, targets = zip(*directions, strict=True)
    if source in sources and target in targets and source != target and len(directions) > 1:
        return str(source), str(target)
    asked = " ".join(f"{word} {one}" for word, one in (("from", source), ("to", target)) if one is not None)
    hint = ""
    if len(directions) == 1 and {source, target} <= {None, *directions[0]}:
        there, back = map(direction_name, (directions[0], directions[0][::-1]))
        hint = f" (data.directions=[{there},{back}] would have trained both directions)"
    raise ValueError(f"the checkpoint translates {arrow(*directions)}, not {asked}{hint}")


def first_direction(directions: object, side: str, default: str) -> str:
    """The source or the target of the first of data.directions, for configs/data/files.yaml; `default` if there is
    none. Text that is no direction is refused later, when the settings are read."""
    first = next(iter(directions), None) if isinstance(directions, Sequence) else None
    languages = first.split("-") if isinstance(first, str) and not isinstance(directions, str) else []
    return languages[0 if side == "source" else 1] if len(languages) == 2 else default
