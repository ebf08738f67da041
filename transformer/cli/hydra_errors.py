"""Says in one line what to do about an error of Hydra, whose own messages take many and do not know our settings."""

import re
from argparse import ArgumentError
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import accumulate, pairwise
from pathlib import Path

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from yaml import MarkedYAMLError

from transformer.cli.arguments import pairs_settings, split_override
from transformer.cli.compose import compose_all
from transformer.cli.errors import describe
from transformer.cli.lines import TABLE_REMEDY, is_tsv_or_csv
from transformer.config import UsageError, flatten
from transformer.data.printable import shell_word

# What other programs call a setting.
SYNONYMS = {
    "lr": "training.learning_rate",
    "batch_size": "data.batch_tokens",
    "epochs": "trainer.max_epochs",
    "steps": "trainer.max_steps",
    "warmup": "training.warmup_steps",
    "scheduler": "training.schedule",
    "early_stopping": "training.patience",
    "gpus": "trainer.devices",
    "device": "trainer.accelerator",
    "vocab_size": "tokenizer.vocabulary_size",
    "source": "data.source_language",
    "target": "data.target_language",
    "hidden_size": "model.dim",
    "d_model": "model.dim",
    "nhead": "model.heads",
    "num_heads": "model.heads",
    "num_layers": "model.layers",
    "dim_feedforward": "model.feed_forward.dim",
    "beam_size": "search.beam",
    "num_beams": "search.beam",
    "src_lang": "data.source_language",
    "tgt_lang": "data.target_language",
    "preset": "experiment",
    "model": "checkpoint",
    "run": "checkpoint",
    "output_dir": "hydra.run.dir",
    "i": "input",
    "o": "output",
}
# Hydra's own options, which argparse also takes shortened. Without -i and --experimental-rerun: who types -i FILE or
# --experiment=NAME means a setting.
OPTIONS = (
    "-h -c -p -r -m -sc -cp -cn -cd --help --hydra-help --version --cfg --resolve --package --run --multirun "
    "--shell-completion --config-path --config-name --config-dir --info"
).split()


class Settings:
    """All settings and choices of a script, as they are when nothing is typed."""

    def __init__(self, config_name: str, configs: Path) -> None:
        self.configs, config = configs, compose_all(config_name, [], configs)
        self.choices = {name: choice for name, choice in config.hydra.runtime.choices.items() if "/" not in name}
        self.values = dict(flatten(OmegaConf.to_container(config)))  # type: ignore[arg-type]
        # Sections have names too: model.encoder.layers stands in model.encoder and model.
        names = dict.fromkeys(name for key in self.values for name in accumulate(key.split("."), "{}.{}".format))
        self.names = [name for name in names | self.choices if name != "hydra" and "_logging" not in name]

    def unknown(self, key: str, is_choice: bool) -> str:
        """Say that there is no such setting, and which may be meant."""
        if (is_choice or "@" in key) and not self.synonym(key):
            return f"{key}: no choice of this script; its choices are {', '.join(sorted(self.choices))}"
        group, _, below = key.partition(".")
        if self.choices.get(group, group) is None:
            return f"{key}: choose {group}=NAME first; --help shows which there are"
        if choice := self.choice_with(group, below):
            return f"{key}: a setting of {group}={choice}: write that too"
        if section := self.section(key):  # trainer={NAME: 3} with a name that it has not
            return section
        if name := key.partition("data.sha256.")[2]:
            return (
                f"{key}: names of files have dots: write 'data.sha256={{{name}: SHA256}}', all files between the braces"
            )
        above = max((name for name in self.names if key.startswith(f"{name}.")), key=len, default="")
        if above in self.values:
            return f"{key}: {above} is a value and has no settings below it"
        near, known = self.near(key, above), ", ".join(sorted(self.inside(above)))
        remedy = f"did you mean {' or '.join(near)}?" if near else f"known are {known};"
        return f"{key}: no such setting; {remedy} --cfg job shows all"

    def choice_with(self, group: str, setting: str) -> str:
        """The choice of a group that has such a setting, which the chosen one has not; "" where none has."""
        files = sorted((self.configs / group).glob("*.yaml")) if self.inside(group) and setting else []
        return next((path.stem for path in files if setting in OmegaConf.load(path)), "")

    def inside(self, section: str) -> list[str]:
        """The settings of a section ("": those at the top, the choices and the folder of a run)."""
        inside = [name for name in self.names if name.rpartition(".")[0] == section]
        return inside if section else [*inside, "hydra.run.dir"]

    def section(self, key: str) -> str:
        """Say that a key is not one setting, but a section of them; "" where it is none."""
        inside = ", ".join(self.inside(key))
        return f"{key} is a section; set one of {inside}" if inside else ""

    def synonym(self, key: str) -> list[str]:
        """What this script calls a setting that other programs call by the last word of `key`; at most one."""
        name = SYNONYMS.get(key.rpartition(".")[2], "")
        return [name] if {name, name.partition(".")[0]} & set(self.names) else []

    def near(self, key: str, section: str) -> list[str]:
        """Up to four settings that may be meant: of a similar name in the section, or of the same one elsewhere."""
        last, known = key.rpartition(".")[2], self.synonym(key)
        inside = {name.rpartition(".")[2]: name for name in self.inside(section)}
        near = [inside[name] for name in get_close_matches(key.removeprefix(f"{section}."), inside)]
        return list(dict.fromkeys([*known, *near, *(name for name in self.names if name.endswith(f".{last}"))]))[:4]

    def with_dashes(self, typed: Sequence[str]) -> str:
        """Say how the first setting is typed that was given as an option, `--heads 8`; "" where none was."""
        for word, following in pairwise([*typed, ""]):
            name, _, value = word.partition("=")
            if name.startswith("-") and not any(option.startswith(name) for option in OPTIONS):
                key = name.rpartition(" ")[2].lstrip("-").replace("-", "_")  # '-m seed=1,2', in quotes together
                near = self.near(key, key.rpartition(".")[0]) or ["KEY"]
                value = value or ("" if "=" in following else following) or "VALUE"
                is_file = near[0] == "data" and Path(value).is_file()
                given = pairs_settings(value) if is_file else f"{near[0]}={value}"
                return f"{word}: settings have no dashes: write {given}; --help shows the options"
        return ""


def _override_for(paths: list[str], values: Mapping[str, object]) -> str | None:
    """The settings that such paths are probably meant for, as they are typed."""
    first, last, together = map(shell_word, (paths[0], paths[-1], f"[{','.join(paths)}]"))
    are_models = any(Path(path).is_dir() or path.endswith((".ckpt", ".safetensors")) for path in paths)
    are_tables = any(map(is_tsv_or_csv, paths))
    is_file = not are_models and len(paths) == 1
    are_two_files = not are_models and len(paths) == 2
    candidates = [
        (is_file and not are_tables, "input", f"input={first}"),
        (is_file, "data.pairs", pairs_settings(paths[0])),
        (are_two_files and not are_tables, "reference", f"source={first} reference={last}"),
        *((not are_tables, key, f"{key}={first if len(paths) == 1 else together}") for key in ("checkpoint", "runs")),
    ]
    return next((written for fits, key, written in candidates if fits and values.get(key, "") is None), None)


def words_alone(typed: Sequence[str], config_name: str, configs: Path) -> str | None:
    """What to write for words without the name of a setting: `compare.py RUN RUN`, `translate.py Guten Tag`."""
    words = [word for word in typed if "=" not in word and not word.startswith("-")]
    if not words or not all(words):
        return None
    settings = Settings(config_name, configs)
    values = settings.values
    if all(Path(word).exists() for word in words):
        if typed_instead := _override_for(words, values):
            return f"{words[0]}: a path needs the name of its setting: write {typed_instead}"
        table = next(filter(is_tsv_or_csv, words), None)
        return table and f"{table} is a table: {TABLE_REMEDY}"
    if values.get("text", "") is not None or words[0] in settings.names:
        return None
    begun = [value for _, key, value in map(split_override, typed) if key == "text"]  # text=Guten Tag
    return f"{words[0]}: a text needs its name and quotes: write text={shell_word(' '.join([*begun, *words]))}"


def unreadable(override: str) -> str:
    """What Hydra's grammar does not take."""
    _, key, value = split_override(override)
    if "=" not in override:
        return (
            f"{override or '(empty)'}: no '=' in it: write KEY=VALUE, and quotes around a value with spaces, "
            'text="two words"'
        )
    if not re.fullmatch(r"[./@:-]*\w[\w./@:-]*", key, re.ASCII):
        return f"{key}: the name of a setting has letters from a to z, digits and . _ - / @ only"
    if set(value) & set("“”„‟‘’‚«»"):
        return f"{key}={value}: Hydra cannot read typographic quotes here: write straight ones, or none"
    what, quoted = "a text with special characters into quotes of its own", f"""'"{value}"'"""
    if value.startswith(("[", "{")):
        what = "each text with special characters into quotes"
        quoted = "\"['A','B']\"" if value.startswith("[") else "\"{NAME:'A'}\""
    return f"{key}={value}: Hydra cannot read this; put {what}: {key}={quoted}"


def innermost(error: BaseException) -> str:
    """Describe what lies behind an error of Hydra or OmegaConf: what a resolver of ours has found, or a wrong value."""
    chain = [error]
    while cause := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(cause)
    for cause in chain:
        if isinstance(cause, MissingMandatoryValue):
            return f"{cause.full_key} is not set: give {cause.full_key}=VALUE"
        if isinstance(cause, (UsageError, OSError)):
            return describe(cause)
    inner = next((cause for cause in chain if isinstance(cause, OmegaConfBaseException)), chain[-1])
    key = getattr(inner, "full_key", None)
    return (f"{key}: " if key else "") + (str(inner) or type(inner).__name__).splitlines()[0]


def in_a_preset(error: Exception, config_name: str, configs: Path) -> str | None:
    """Describe a mistake in a YAML file of one's own; None where it is another."""
    message = str(error)
    if isinstance(error, MarkedYAMLError) and error.problem_mark:
        place = f"{error.problem_mark.name}, line {error.problem_mark.line + 1}"
        return f"{place}: {error.problem}: write KEY: VALUE, and indent by spaces, without tabs"
    if match := re.match("In '(.*)': Could not .* '[^']*@experiment[^']*'", message):
        return f'{match[1]}.yaml: its first line must be "# @package _global_"'
    if match := re.match("In '(.*)': Could not (?:find|load|override) '([^']*)'", message):
        groups = ", ".join(sorted(Settings(config_name, configs).choices))
        remedy = f'write "- override /GROUP: CHOICE"; the groups are {groups}'
        return f"{match[1]}.yaml: its defaults list names {match[2]}, which is not there: {remedy}"
    if match := re.match(r"(?:Multiple values for )?(\S+?)(?:\. To override a value| appears more than once)", message):
        return f'{match[1]} is chosen twice: in the defaults list of a preset write "- override /{match[1]}: CHOICE"'
    if match := re.match("In '(.*)': .*\nCannot merge DictConfig with ListConfig", message):
        return f"{match[1]}.yaml: a list stands where settings belong: write KEY: VALUE"
    if match := re.match(r"unknown setting ([\w.]+): allowed", message):
        settings, (section, _, key) = Settings(config_name, configs), match[1].rpartition(".")
        if match[1] in settings.choices:  # its settings lie in a section of their own
            return f'{match[1]}=NAME: the first line of its file must be "# @package _global_"'
        if section and match[1] in settings.names:
            return (
                f'{match[1]}: YAML has no dots in its keys: write "{section}:" and below it, indented, "{key}: VALUE"'
            )
        return settings.unknown(match[1], is_choice=False)
    return None


def explain_error(error: Exception, typed: Sequence[str], config_name: str, configs: Path) -> str:
    """Describe any error in one line; one of Hydra's is explained by the settings that its script has."""
    message = str(error)
    if isinstance(error, ArgumentError):
        return Settings(config_name, configs).with_dashes(typed) or f"{message}; --help shows the options"
    if isinstance(error, OverrideParseException):
        alone = None if "=" in error.override else words_alone(typed, config_name, configs)
        return alone or unreadable(error.override)
    if isinstance(error, MissingConfigException):
        group, _, choice = str(error.missing_cfg_file).rpartition("/")
        options = error.options or sorted(path.stem for path in (configs / group).glob("*.yaml"))
        if group and options:
            own = f"; your own is FOLDER/experiment/{choice}.yaml, with --config-dir=FOLDER" * (group == "experiment")
            return f"{group}={choice}: {group} is one of {', '.join(options)}{own}"
        if not group:  # of --config-name
            return f"{message.splitlines()[0]} A preset of your own is chosen by experiment=NAME"
    if in_preset := in_a_preset(error, config_name, configs):
        return in_preset
    if match := re.match("Ambiguous value for argument '(.*)'", message):
        return f"{match[1]}: several values need -m, a list brackets: KEY=[A,B]"
    if match := re.match(r"Could not (?:override|delete from config\.) '([^']*)'(\. No match in the def)?", message):
        return Settings(config_name, configs).unknown(match[1], is_choice=bool(match[2]))
    if match := re.match(r"Error merging override ([^=]*)", message):
        return Settings(config_name, configs).section(match[1]) or innermost(error)
    return innermost(error) if isinstance(error, (HydraException, OmegaConfBaseException)) else describe(error)
