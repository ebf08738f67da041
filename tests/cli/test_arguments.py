"""What is typed arrives: free text and paths literally, the Trainer's arguments without a plus, one key once."""

import re
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from tests.cases import others_long
from tests.cli.project import compose
from tests.factories import composed
from transformer.cli import CONFIGS
from transformer.cli.arguments import prepare, quote
from transformer.config import UsageError

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
TRICKY = st.text("\\${}'\",=?#[]() \n\tä:~+x", max_size=10)


@settings(max_examples=150)
@given(TEXTS | TRICKY)
@example("???")
def test_any_text_arrives_as_typed_and_survives_a_sweep_and_a_saved_file(text: str) -> None:
    parser = OverridesParser.create()
    override = parser.parse_override(prepare([f"text={text}"], CONFIGS)[0])
    again = parser.parse_override(f"text={override.get_value_element_as_str()}")  # what Hydra's sweeper does
    for value in (override.value(), again.value()):
        assert not override.is_sweep_override()
        config = OmegaConf.create({"text": None})
        OmegaConf.update(config, "text", value)
        assert config.text == text
        if "\x85" not in text:  # PyYAML writes this line break and reads a space
            assert OmegaConf.create(OmegaConf.to_yaml(config)).text == text
        assert OmegaConf.to_container(config, resolve=True) == {"text": text}


@pytest.mark.parametrize(
    "text",
    others_long(
        [
            *(
                "Hallo, 2 = zwei! <b>ä</b>",
                "1",
                "null",
                "",
                "???",
                "${x}",
                "\\${x}",
                'it\'s "so"',
                "a\nb",
                "[1,2",
                "'q'",
            ),
            *("#", "viele, viele Worte " * 200),
        ],
        short=7,
    ),
)
def test_a_text_arrives_through_hydra(project: Path, text: str) -> None:
    for prefix in ("", "+", "++"):
        name = "translate" if prefix else "train"
        assert compose(project, f"{prefix}text={text}", name=name)["text"] == text


LITERAL = [
    *("text name host checkpoint init_from resume runs cache input output fix source reference").split(),
    *("alignments api_key_file choose.reverse reverse augment forward finetune data.extra_tests.news").split(),
    *(f"data.{name}" for name in ("directory", "pairs", "train", "validation", "test", "file", "cache")),
]


@pytest.mark.parametrize("key", LITERAL)
def test_texts_names_and_paths_arrive_as_typed(key: str) -> None:
    value = "a, {b}=it's ${c}"
    assert prepare([f"{key}={value}"], CONFIGS) == [f"{'++' * ('extra' in key)}{key}={quote(value)}"]


def test_null_takes_away_a_path_that_a_preset_names() -> None:
    typed = ["experiment=multi30k_de_en", "data.train=null", "init_from=null", "data.validation=./null"]
    settings = composed(*prepare(typed, CONFIGS))
    assert [settings["init_from"], settings["data"]["train"], settings["data"]["validation"]] == [None, None, "./null"]


def test_an_empty_path_is_none_of_anybodys() -> None:
    with pytest.raises(UsageError, match=r"^init_from= is empty: give a path, or init_from=null for none$"):
        prepare(["init_from="], CONFIGS)


@pytest.mark.parametrize("key", ["data.source_language", "data.target_language"])
def test_the_code_of_min_nan_chinese_is_no_number(key: str) -> None:
    for value, prefix in (("nan", ""), ("'nan'", ""), ("nan", "++")):
        [override] = prepare([f"{prefix}{key}={value}"], CONFIGS)
        assert composed("data=files", override)["data"][key.removeprefix("data.")] == "nan"
    [override] = prepare([f"{key.removeprefix('data.')}=nan"], CONFIGS)
    assert composed(override, name="translate")[key.removeprefix("data.")] == "nan"


@pytest.mark.parametrize("key", ["data.train", "choose.reverse", "hydra.run.dir"])
def test_a_tilde_that_the_shell_left_is_the_home_folder(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "USERPROFILE"):  # the second one's on Windows
        monkeypatch.setenv(variable, str(tmp_path))
    assert prepare([f"{key}=~/runs/a"], CONFIGS) == [f"{key}='{tmp_path}/runs/a'"]


def test_an_interpolation_in_the_run_folder_stays_hydras() -> None:
    assert prepare(["hydra.run.dir=runs/${now:%Y}"], CONFIGS) == ["hydra.run.dir='runs/${now:%Y}'"]
    for quoted in ("hydra.run.dir='a b'", 'hydra.run.dir="a b"'):
        assert prepare([quoted], CONFIGS) == [quoted]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("~trainer", "~trainer: a group of settings cannot be taken out; leave this out"),
        ("~trainer=auto", "~trainer: a group of settings cannot be taken out; leave this out"),
        ("~hydra/launcher", "~hydra/launcher: a group of settings cannot be taken out; leave this out"),
        ("~validation_search", "~validation_search: a group of settings cannot be taken out; leave this out"),
        ("trainer=null", "trainer=null: leave this out, or choose one of auto, cpu, ddp, gpu"),
        ("choose=null,mbr", "choose=null,mbr: leave this out, or choose one of mbr, rerank, score"),  # of a sweep
        ("hydra/launcher=null", "hydra/launcher=null: leave this out, or choose one of its choices"),
    ],
)
def test_no_group_of_settings_is_taken_out(typed: str, message: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        prepare([typed], CONFIGS)


@pytest.mark.parametrize("key", ["runs", "hydra.run.dir", "hydra.sweep.dir"])
def test_a_folder_is_no_file_and_has_a_name(key: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for value in (f"{tmp_path}/file", "", "null"):
        with pytest.raises(UsageError, match=f"^{re.escape(f'{key}={value}')} is no folder: name one$"):
            prepare([f"{key}={value}"], CONFIGS)


def test_a_text_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(UsageError, match="text is not UTF-8 text"):
        prepare(["text=ja \udcff"], CONFIGS)


def test_paths_that_are_there_are_swept_over_and_one_with_a_comma_is_one(tmp_path: Path) -> None:
    for name in ("a b", "c", "d,c"):
        (tmp_path / name).mkdir()
    several = f"{tmp_path}/a b,{tmp_path}/c"
    sweep = prepare(["-m", f"checkpoint={several}"], CONFIGS)[0]
    assert sweep == f"checkpoint='{tmp_path}/a b','{tmp_path}/c'"
    assert OverridesParser.create().parse_override(sweep).is_sweep_override()
    assert prepare([f"checkpoint={several}", "hydra.mode=MULTIRUN"], CONFIGS)[0] == sweep
    assert prepare([f"checkpoint={several}"], CONFIGS) == [f"checkpoint='{several}'"]
    assert prepare(["-m", f"checkpoint=[{several}]"], CONFIGS)[0] == f"checkpoint='[{several}]'"  # one ensemble
    assert prepare(["-m", f"checkpoint={tmp_path}/d,c"], CONFIGS)[0] == f"checkpoint='{tmp_path}/d,c'"
    assert prepare(["-m", f"text={several}"], CONFIGS)[0] == f"text='{several}'"


def test_the_search_of_validation_is_chosen_and_set_by_the_name_of_its_section() -> None:
    typed = ["validation_search=beam", "validation_search.beam=3"]
    assert composed(*prepare(typed, CONFIGS))["validation_search"].items() >= {"method": "beam", "beam": 3}.items()
    assert composed(*prepare(["validation_search={beam: 3}"], CONFIGS))["validation_search"]["beam"] == 3


def test_options_may_stand_between_overrides() -> None:
    typed = ["a=1", "-m", "~b=2", "--cfg", "job", "~c"]
    assert prepare(typed, CONFIGS) == ["a=1", "~b=2", "~c", "-m", "--cfg", "job"]


@pytest.mark.parametrize("typed", [["model=small", "model={dim: 64}"], ["data={workers: 1}", "data=multi30k"]])
def test_a_choice_and_its_parts_are_not_typed_under_one_key(typed: list[str]) -> None:
    with pytest.raises(UsageError, match=r"(model|data)= is typed twice, once with braces: .*\.NAME=VALUE"):
        prepare(typed, CONFIGS)
    assert len(prepare(["text={a", "text={b"], CONFIGS)) == 1


def test_of_a_key_given_twice_the_later_counts(project: Path) -> None:
    config = compose(project, "data=files", "text=a", "data=toy", "text=b")
    assert (config["data"]["train"], config["text"]) == (None, "b")
    assert compose(project, "model.dim=4", "model={dim: 5}", "model.dim=6")["model"]["dim"] == 6


def test_the_children_of_lightning_prepare_the_same_arguments(tmp_path: Path) -> None:
    folder = tmp_path / 'x "y" ${z}'
    typed = ["text='${x}'", "resume=last"]
    added = [f'hydra.run.dir="{folder}"', "hydra.job.name=train_ddp_process_1", "hydra.output_subdir=null"]
    child = prepare([*typed, *added], CONFIGS)
    assert child == [*prepare(typed, CONFIGS), f"hydra.run.dir={quote(str(folder))}", *added[1:]]


def test_who_counts_in_epochs_is_not_stopped_by_the_presets_steps(project: Path) -> None:
    assert compose(project, "trainer.max_epochs=3")["trainer"]["max_steps"] == -1


@pytest.mark.parametrize("epochs", ["null", "Null", "-1"])
def test_who_asks_for_no_limit_of_epochs_keeps_the_presets_steps(epochs: str) -> None:
    assert prepare([f"trainer.max_epochs={epochs}"], CONFIGS) == [f"trainer.max_epochs={epochs}"]


def test_test_sets_and_digests_of_ones_own_are_given_by_name_or_together() -> None:
    together = ["data.extra_tests={news:my/news, talks: talks}", "data.sha256={train.de: abc}"]
    data = composed(*prepare([*together, "data.extra_tests.web=a b"], CONFIGS))["data"]
    assert data["extra_tests"].items() >= {"news": "my/news", "talks": "talks", "web": "a b"}.items()
    assert data["sha256"] == {"train.de": "abc"}


@pytest.mark.parametrize("value", ["../../x", "/tmp/x", "a/b", "[toy,../x]"])
@pytest.mark.parametrize("key", ["experiment", "data", "search@validation_search", "hydra/launcher", "+data"])
def test_a_choice_cannot_lead_out_of_our_configs(key: str, value: str) -> None:
    with pytest.raises(UsageError, match="a choice has no path in it; --config-dir=FOLDER"):
        prepare([f"{key}={value}"], CONFIGS)
    for option in ("--config-dir=own", "-cd"):
        assert prepare([f"{key}={value}", option], CONFIGS)[0] == f"{key}={value}"


@pytest.mark.parametrize("key", ["data/../../x", "+../x"])
def test_a_group_cannot_lead_out_of_our_configs(key: str) -> None:
    with pytest.raises(UsageError, match="a choice has no path in it"):
        prepare([f"{key}=toy"], CONFIGS)
