"""Folders of Hugging Face's transformers: our exports give the same results there, and theirs give them here."""

import json
import os
import re
import shutil
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import sentencepiece
import torch
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from tests.cases import others_long
from tests.factories import small_model, tokenizer_settings
from tests.links import needs_links, needs_pipes
from tests.pages import play
from tests.reliability.hostile import CHANGED_MAPS, with_map
from tests.scripts.running import ok, refused
from tests.tools.export.models import ENGLISH, TEXTS, Build, with_two_vocabularies
from transformer import Translator
from transformer.data.batching import pad
from transformer.data.tokenizer import BOS, EOS, PAD, UNK, train_tokenizer
from transformer.inference.settings import Defaults
from transformer.inference.translator import BEAM
from transformer.model.masks import padding_mask
from transformer.tools.export.formats import ExportSettings
from transformer.tools.export.write import export
from transformer.tools.hub.vocabulary import KINDS, build_numbering, kind_of, parse, renumbered

transformers = pytest.importorskip("transformers", reason="the dev extra is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses"),
    # The results of its own code.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"),
]

# An empty text has no tokens: our translation is empty, theirs is not.
FULL_TEXTS = [text for text in TEXTS if text]
VARIANTS: dict[str, dict[str, object]] = {
    "pre": {},
    "pre, learned, gelu": {"positions": "learned", "feed_forward__activation": "gelu"},
    "pre, no positions, other scores, no biases": {
        "positions": "none",
        "encoder__self_attention__score": "bilinear",
        "decoder__self_attention__score": "dot",
        "encoder__self_attention__bias": False,
        "decoder__cross_attention__bias": False,
    },
    "post": {"norm": "post", "encoder__self_attention__heads": 4},
    "post, silu, two embeddings, a bias of the output": {
        "norm": "post",
        "output_bias": True,
        "feed_forward__activation": "silu",
        "tied_embeddings": "target",
    },
    "post, nothing tied": {"norm": "post", "tied_embeddings": "none", "encoder__layers": 1},
}


def exported(translator: Translator, folder: Path, precision: str = "float32") -> tuple[Any, Any]:
    """The model and the tokenizer that transformers loads from an export."""
    export(translator, ExportSettings("huggingface", precision, str(folder)))  # type: ignore[arg-type]
    # Version 5 loads weights in their stored type by default, 4.57 as float32 by default.
    load = transformers.AutoModelForSeq2SeqLM.from_pretrained
    model, found = load(folder, dtype="auto", output_loading_info=True)
    assert not any(found.values()), found
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder)


def batch(translator: Translator) -> dict[str, torch.Tensor]:
    source = pad([torch.tensor([*translator.source_tokenizer.encode(text), EOS]).numpy() for text in FULL_TEXTS])
    inputs = torch.randint(EOS + 1, 40, (len(FULL_TEXTS), 7))
    inputs[:, 0] = BOS
    return {"source": source, "inputs": inputs, "source_visible": padding_mask(source, PAD)}


@torch.inference_mode()
def their_logits(model: Any, source: torch.Tensor, inputs: torch.Tensor, source_visible: torch.Tensor) -> torch.Tensor:
    return model(input_ids=source, attention_mask=source_visible.long(), decoder_input_ids=inputs).logits


@pytest.mark.parametrize("variant", others_long(VARIANTS, short=2))
def test_an_exported_model_gives_the_same_logits_there_and_read_back(
    build: Build, tmp_path: Path, variant: str
) -> None:
    translator = build(**VARIANTS[variant])
    model, _ = exported(translator, tmp_path / "hub")
    given = batch(translator)
    with torch.inference_mode():
        ours = translator.model(**given)
        read_back = Translator.load(tmp_path / "hub").model(**given)
    torch.testing.assert_close(their_logits(model, **given), ours, atol=1e-5, rtol=0)
    torch.testing.assert_close(read_back, ours, atol=1e-5, rtol=0)


def test_every_setting_of_a_model_comes_back_from_its_folder(build: Build, tmp_path: Path) -> None:
    attentions = ("encoder__self_attention", "decoder__self_attention", "decoder__cross_attention")
    dropout = {f"{attention}__dropout": 0.2 for attention in attentions} | {"feed_forward__dropout": 0.3}
    translator = build(norm="post", output_bias=True, dropout=0.1, **dropout)
    exported(translator, tmp_path / "hub")
    assert Translator.load(tmp_path / "hub").model.config == translator.model.config


@pytest.mark.parametrize(("method", "penalty"), others_long([("greedy", 1.0), ("beam", 1.0), ("beam", 3.0)]))
def test_generate_finds_the_translations_of_our_search(
    taught: Translator, tmp_path: Path, method: str, penalty: float
) -> None:
    taught = copy(taught)
    taught.defaults = Defaults(length_penalty=penalty)
    model, tokenizer = exported(taught, tmp_path / "hub")
    beams = {"greedy": {"num_beams": 1}, "beam": {}}[method]
    tokens = model.generate(**tokenizer(FULL_TEXTS, return_tensors="pt", padding=True), **beams)
    search = replace(BEAM, method=method, length_ratio=100.0, no_repeat=0)  # type: ignore[arg-type]
    assert tokenizer.batch_decode(tokens, skip_special_tokens=True) == taught.translate(FULL_TEXTS, search)
    assert Translator.load(tmp_path / "hub").defaults.length_penalty == penalty


def test_the_page_shows_how_an_export_translates_without_this_project(
    taught: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught = copy(taught)
    taught.defaults = Defaults(length_penalty=3.0)
    exported(taught, tmp_path / "hub")
    monkeypatch.chdir(tmp_path)
    [(_, printed, _)] = play("export.md", "Hugging Face")
    assert printed == str(taught.translate(["wir gehen am Dienstag in den Park."]))


# transformers 4 makes the target's embedding as large as that of the source.
@pytest.mark.skipif(transformers.__version__.startswith("4."), reason="transformers 4 cannot load such a folder")
def test_generate_writes_the_pieces_of_a_target_with_its_own_vocabulary(tmp_path: Path) -> None:
    translator = with_two_vocabularies()
    model, tokenizer = exported(translator, tmp_path / "hub")
    tokens = model.generate(**tokenizer(FULL_TEXTS, return_tensors="pt", padding=True), num_beams=1)
    search = replace(BEAM, method="greedy", length_ratio=100.0, no_repeat=0)
    assert tokenizer.batch_decode(tokens, skip_special_tokens=True) == translator.translate(FULL_TEXTS, search)


@pytest.mark.parametrize("kind", KINDS.values())
def test_their_tokenizer_gives_our_ids(tmp_path: Path, kind: str) -> None:
    tokenizer = train_tokenizer(TEXTS * 3, tokenizer_settings(kind, 44, byte_fallback=False))
    model = small_model(source_vocab_size=len(tokenizer), target_vocab_size=len(tokenizer))
    translator = Translator(model, (tokenizer, tokenizer), ("de", "en"))
    _, theirs = exported(translator, tmp_path / "hub")
    texts = [*TEXTS, "Ünïcode ½ ﬁ 猫 🙂", "  two  spaces ", "<s> </s>"]
    assert [theirs(text).input_ids[:-1] for text in texts[:-1]] == tokenizer.encode_all(texts[:-1])
    back = Translator.load(tmp_path / "hub")
    assert back.source_tokenizer.encode_all(texts) == tokenizer.encode_all(texts)
    assert back.languages == ("de", "en")


@pytest.mark.long
def test_a_language_code_asks_a_model_of_several_directions_for_one(tmp_path: Path) -> None:
    tokenizer = train_tokenizer(TEXTS * 3, tokenizer_settings("bpe", 63), ("de", "en", "fr"))
    model = small_model(source_vocab_size=63, target_vocab_size=63)
    directions = [("en", "fr"), ("de", "en"), ("en", "de")]
    translator = Translator(model, (tokenizer, tokenizer), ("de", "en"), directions)
    _, theirs = exported(translator, tmp_path / "hub")
    for code in ("de", "en", "fr"):
        asked = translator.in_direction(target_language=code).source_tokenizer.encode("ein Haus")
        assert theirs(f">>{code}<<ein Haus").input_ids[:-1] == asked
    assert Translator.load(tmp_path / "hub").directions == (("de", "en"), ("en", "fr"), ("en", "de"))
    # Fine-tuned in one direction, with the tags of three in its vocabulary: it has only learned this one.
    exported(Translator(model, (tokenizer, tokenizer), ("de", "en")), tmp_path / "one")
    assert Translator.load(tmp_path / "one").directions == (("de", "en"),)
    modes = {path.stat().st_mode for path in (tmp_path / "one").iterdir()}
    assert len(modes) == 1  # all files have the same permissions
    # A model of others has no list of directions, but language codes.
    config = tmp_path / "hub" / "tokenizer_config.json"
    config.write_text(config.read_text(encoding="utf-8").replace('"directions"', '"other"'), encoding="utf-8")
    assert Translator.load(tmp_path / "hub").directions == (("de", "en"), ("en", "de"), ("de", "fr"))
    assert (
        Translator.load(tmp_path / "hub").source_tokenizer.encode("ein Haus")[0]
        == translator.source_tokenizer.prefix[0]
    )


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_rounded_weights_are_loaded_as_they_were_rounded(taught: Translator, tmp_path: Path, precision: str) -> None:
    model, _ = exported(taught, tmp_path / "hub", precision)
    dtype = getattr(torch, precision)
    assert model.dtype == dtype
    weight = taught.model.decoder.embedding.tokens.weight.detach()
    torch.testing.assert_close(model.get_input_embeddings().weight.detach(), weight.to(dtype), atol=0, rtol=0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"positions": "rotary"}, "model.positions=rotary cannot be exported to Hugging Face with model.norm=pre"),
        ({"norm": "post", "positions": "learned"}, "model.positions=learned cannot be exported"),
        ({"feed_forward__activation": "swiglu"}, "model.feed_forward.activation=swiglu"),
        ({"encoder__self_attention__score": "additive"}, "model.encoder.self_attention.score=additive"),
        ({"decoder__cross_attention": None}, "model.decoder.cross_attention=null"),
        ({"decoder__cross_attention__heads": 4}, "model.decoder.cross_attention.heads"),
        ({"decoder__self_attention__value_dim": 7}, "model.decoder.self_attention.head_dim and value_dim"),
        ({"tied_embeddings": "target"}, "model.tied_embeddings=target with model.norm=pre"),
    ],
    ids=str,
)
def test_what_transformers_has_no_class_for_is_refused(
    build: Build, tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        export(build(**changes), ExportSettings("huggingface", "float32", str(tmp_path / "hub")))
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def train_spm(path: Path, texts: list[str], model_type: str, size: int) -> list[str]:
    """A SentencePiece model with the ids of the OPUS-MT models: without <pad>, the unknown token first."""
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(texts * 3),
        model_prefix=str(path.with_suffix("")),
        model_type=model_type,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        user_defined_symbols=["Sonne"],
    )
    path.with_suffix(".model").rename(path)
    pieces = sentencepiece.SentencePieceProcessor(str(path))
    return [pieces.IdToPiece(id) for id in range(3, len(pieces))]


def marian_folder(folder: Path, model_type: str = "unigram", safe: bool = True, **changes: Any) -> tuple[Any, Any]:
    """A random model of transformers' Marian class, saved like the OPUS-MT models: </s> is 0 and <pad> the last."""
    folder.mkdir()
    pieces = {
        *train_spm(folder / "source.spm", TEXTS, model_type, 60),
        *train_spm(folder / "target.spm", ENGLISH, model_type, 40),
    }
    vocabulary = {piece: id for id, piece in enumerate(["</s>", "<unk>", *sorted(pieces), ">>en<<", "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    torch.manual_seed(1)
    last = len(vocabulary) - 1
    config = transformers.MarianConfig(
        **{
            **{"vocab_size": last + 1, "d_model": 24, "encoder_layers": 2, "decoder_layers": 1, "dropout": 0.0},
            **{"encoder_attention_heads": 3, "decoder_attention_heads": 4, "max_position_embeddings": 64},
            **{"encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "activation_function": "swish", "scale_embedding": True},
            **{"pad_token_id": last, "eos_token_id": 0, "decoder_start_token_id": last, "forced_eos_token_id": None},
            **changes,
        }
    )
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        model.final_logits_bias.normal_()
        for name, weight in model.named_parameters():
            if "embed_positions" not in name:  # a constant
                weight += 0.3 * torch.randn_like(weight)
    model.save_pretrained(folder)
    if not safe:
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    tokenizer = transformers.MarianTokenizer(*files, source_lang="de", target_lang="en")
    tokenizer.save_pretrained(folder)
    return model, tokenizer


@pytest.mark.parametrize(("model_type", "safe"), [("unigram", True), ("bpe", False)])
def test_a_model_of_their_marian_class_gives_the_same_logits_here(tmp_path: Path, model_type: str, safe: bool) -> None:
    model, tokenizer = marian_folder(tmp_path / "opus", model_type, safe)
    ours = Translator.load(tmp_path / "opus")
    assert ours.languages == ("de", "en")
    # They need the language code in the text; our code adds it for its target language.
    theirs = tokenizer([f">>en<<{text}" for text in FULL_TEXTS], return_tensors="pt", padding=True)
    given = batch(ours)
    # Our ids stand for their ids: equal pieces, so equal logits at equal places.
    assert given["source_visible"].tolist() == theirs.attention_mask.bool().tolist()
    vocabulary = tokenizer.get_vocab()
    names = [ours.target_tokenizer.piece(id) for id in range(len(ours.target_tokenizer))]
    special = {"<s>": "<pad>", "<2en>": ">>en<<"}
    order = torch.tensor([vocabulary[special.get(name, name)] for name in names])
    source = order[given["source"]]
    assert source.tolist() == theirs.input_ids.tolist()
    with torch.inference_mode():
        found = ours.model(**given)
    expected = their_logits(model, source, order[given["inputs"]], given["source_visible"])
    torch.testing.assert_close(found, expected[..., order], atol=1e-5, rtol=1e-5)


@pytest.mark.long
def test_the_scripts_translate_explain_and_export_a_model_of_theirs(tmp_path: Path) -> None:
    marian_folder(tmp_path / "opus")
    opus, search = ("--checkpoint", "opus"), ("--max-length", "12")
    exact = ("--matmul-precision", "highest")
    translation = ok("translate", "ein Haus", *opus, *search, *exact, cwd=tmp_path).removesuffix("\n")
    assert translation == Translator.load(tmp_path / "opus").translate(["ein Haus"], replace(BEAM, max_length=12))[0]
    for side in ("de", "en"):
        (tmp_path / f"x.{side}").write_text("ein Haus\n", encoding="utf-8")
    files = sorted((tmp_path / "opus").iterdir())
    files_of_x = ("--input", "x.de", "--reference", "x.en")
    assert "opus is a Hugging Face folder, not a run" in refused("evaluate", *opus, *files_of_x, cwd=tmp_path)
    assert sorted((tmp_path / "opus").iterdir()) == files
    ok("evaluate", *opus, *search, *exact, *files_of_x, "--output", "scored", cwd=tmp_path)
    assert (tmp_path / "scored" / "hypotheses.x.txt").read_text(encoding="utf-8") == f"{translation}\n"
    ok("explain", "ein Haus", *opus, *search, "--output", "explained.html", cwd=tmp_path)
    html = (tmp_path / "explained.html").read_text(encoding="utf-8")
    [data] = re.findall(r'<script type="application/json" id="explanation">(.*?)</script>', html, re.DOTALL)
    assert json.loads(data)["translation"] == translation
    ok("export", "page", *opus, "--output", "live.html", cwd=tmp_path)
    [opening] = re.findall(r'id="opening">(.*?)</script>', (tmp_path / "live.html").read_text(encoding="utf-8"))
    assert json.loads(opening)["name"].endswith("opus")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"scale_embedding": False}, "scale_embedding=false"),
        ({"activation_function": "tanh"}, "activation_function=tanh is not known here"),
        ({"decoder_ffn_dim": 20}, "encoder_ffn_dim=37 and decoder_ffn_dim=20"),
    ],
    ids=str,
)
def test_a_model_of_theirs_that_ours_cannot_compute_is_refused(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    marian_folder(tmp_path / "opus", **changes)
    with pytest.raises(ValueError, match=reason) as caught:
        Translator.load(tmp_path / "opus")
    assert "\n" not in str(caught.value)


def test_pieces_that_their_vocabulary_lacks_are_refused_before_they_take_room() -> None:
    few = {"</s>": 0, "<unk>": 1, "<pad>": 2, "a": 3}
    special = {PAD: 2, UNK: 1, BOS: 2, EOS: 0}
    model = ModelProto(pieces=[ModelProto.SentencePiece(piece=f"piece {number}") for number in range(5)])
    with pytest.raises(ValueError, match="its tokenizers have 5 pieces that are not in its vocabulary of 4"):
        build_numbering(few, 4, special, model)


def test_pieces_missing_in_their_vocabulary_are_their_unknown_token() -> None:
    vocabulary = {"</s>": 0, "<unk>": 1, "a": 2, "b": 3, "<pad>": 4}
    special = {PAD: 4, UNK: 1, BOS: 4, EOS: 0}
    source, target = (
        ModelProto(pieces=[ModelProto.SentencePiece(piece=piece) for piece in pieces])
        for pieces in (["<unk>", "<s>", "a", "y"], ["</s>", "x", "y", "b"])
    )
    numbering = build_numbering(vocabulary, 7, special, source, target)
    ours = [(4, "<pad>"), (1, "<unk>"), (4, "<s>"), (0, "</s>"), (2, "a"), (3, "b")]
    more = [(5, "<unused 5>"), (6, "<unused 6>"), (1, "x"), (1, "y")]
    assert list(zip(numbering.their_ids, numbering.pieces, strict=True)) == [*ours, *more]
    for size, changes in ((4, {}), (7, {BOS: -1}), (7, {EOS: 7})):
        with pytest.raises(ValueError, match=f"its vocabulary has ids beyond the {size} of its model"):
            build_numbering(vocabulary, size, special | changes, source, target)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_a_vocabulary_in_another_order_makes_the_pieces_that_it_made(kind: str) -> None:
    tokenizer = train_tokenizer(TEXTS * 3, tokenizer_settings(kind, 295, byte_fallback=True))
    model = parse(tokenizer.model)
    names = [*(piece.piece for piece in model.pieces), "▁foreign", ">>en<<"]
    vocabulary = {name: id for id, name in enumerate(reversed(names))}
    special = {id: vocabulary[tokenizer.piece(id)] for id in (PAD, UNK, BOS, EOS)}
    numbering = build_numbering(vocabulary, len(vocabulary), special, model)
    ours = renumbered(model, numbering)
    assert ours.tagged_languages == ["en"]
    for text in [*TEXTS, "猫 🙂", "foreign", ">>en<< a", "<2en> a"]:
        assert ours.pieces(text) == (pieces := tokenizer.pieces(text))
        assert [numbering.their_ids[id] for id in ours.encode(text)] == [vocabulary[piece] for piece in pieces]
        assert ours.decode(ours.encode(text)) == tokenizer.decode(tokenizer.encode(text))


def test_a_tokenizer_of_words_which_are_cut_otherwise_there_is_refused() -> None:
    words = train_tokenizer(TEXTS * 3, tokenizer_settings("word", 44))
    with pytest.raises(ValueError, match="its tokenizer has none of the kinds unigram, bpe, char"):
        kind_of(parse(words.model))


@pytest.mark.parametrize("name", ["map_without_end", "map_leads_out"])
@pytest.mark.parametrize("side", ["source.spm", "target.spm"])
def test_a_tokenizer_of_theirs_is_checked_as_ours_are(build: Build, tmp_path: Path, side: str, name: str) -> None:
    exported(build(), tmp_path / "hub")
    (tmp_path / "hub" / "export.json").unlink()
    tokenizer = tmp_path / "hub" / side
    tokenizer.write_bytes(with_map(tokenizer.read_bytes(), CHANGED_MAPS[name]))
    with pytest.raises(ValueError, match="the tokenizer's bytes are not a SentencePiece model"):
        Translator.load(tmp_path / "hub")


KEY = "model.encoder.layers.0.self_attn.k_proj.weight"


@pytest.mark.parametrize(
    ("name", "tensor", "reason"),
    others_long(
        [
            (KEY, torch.zeros(1).expand(24, 24), f"its tensor {KEY} is not a plain one"),
            (KEY, torch.full((24, 24), torch.nan), "key.weight holds values that are no numbers"),
            (KEY, torch.zeros(23, 24), "key.weight is (23, 24), the model needs (24, 24)"),
            (KEY, torch.zeros(24, 23), f"its tensor {KEY} is (24, 23), unlike in its settings"),
            (KEY, None, f"it has no tensor {KEY}"),
            ("lm_head.weight", torch.zeros(5, 24), "its tensor lm_head.weight is (5, 24), unlike in its settings"),
            ("model.decoder.embed_tokens.weight", torch.zeros(50, 24), "its decoder have another number"),
            ("lm_head.weight", "text", "pytorch_model.bin holds more than tensors: it is no state_dict() of a model"),
            (None, [1, 2], "no checkpoint (it holds a list, not a dictionary)"),
        ],
        short=4,
    ),
    ids=str,
)
def test_weights_of_theirs_that_are_not_what_the_settings_say_are_refused(
    build: Build, tmp_path: Path, name: str | None, tensor: Any, reason: str
) -> None:
    exported(build(norm="post", tied_embeddings="none"), tmp_path / "hub")
    weights = tmp_path / "hub" / "model.safetensors"
    tensors = safetensors.torch.load(weights.read_bytes()) | {name: tensor}
    if tensor is None:
        del tensors[name]
    weights.unlink()
    torch.save(tensors if name else tensor, tmp_path / "hub" / "pytorch_model.bin")
    with pytest.raises(ValueError, match=re.escape(reason)):
        Translator.load(tmp_path / "hub")


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("config.json", {"encoder_layers": 100}, "it declares more layers than it holds"),
        ("vocab.json", {"ein": "4"}, "vocab.json does not number pieces"),
        ("vocab.json", {"ein": 10**6}, "its vocabulary has ids beyond the 60 of its model"),
        ("vocab.json", {"<unk>": None}, "its vocabulary has no <unk>"),
    ],
    ids=str,
)
def test_settings_and_vocabularies_of_theirs_that_do_not_fit_are_refused(
    build: Build, tmp_path: Path, name: str, changes: dict[str, Any], reason: str
) -> None:
    exported(build(), tmp_path / "hub")
    content = json.loads((tmp_path / "hub" / name).read_text(encoding="utf-8")) | changes
    content = {key: value for key, value in content.items() if value is not None}
    (tmp_path / "hub" / name).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=reason):
        Translator.load(tmp_path / "hub")


def test_a_damaged_folder_of_theirs_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "opus"
    marian_folder(folder)
    Translator.load(folder)
    for name in ("config.json", "model.safetensors", "source.spm", "target.spm", "vocab.json", "tokenizer_config.json"):
        whole = (folder / name).read_bytes()
        for broken in (b"", whole[: len(whole) // 2], b"[1]", b"[" * 100_000, None):
            if broken is None:
                (folder / name).unlink()
            else:
                (folder / name).write_bytes(broken)
            if name == "tokenizer_config.json" and broken is None:
                continue  # then it is not a folder of transformers
            with pytest.raises(ValueError, match="is not a usable checkpoint of this program") as caught:
                Translator.load(folder)
            assert "\n" not in str(caught.value)
        (folder / name).write_bytes(whole)
    about = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    long = "x" * (5 << 20)
    for lie in ({"source_lang": long}, {"target_lang": "a\nb"}, {"directions": [long]}):
        (folder / "tokenizer_config.json").write_text(json.dumps(about | lie), encoding="utf-8")
        with pytest.raises(ValueError, match="is not a usable checkpoint of this program") as caught:
            Translator.load(folder)
        assert len(str(caught.value)) < 1000
    (folder / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    for lie in (
        {"vocab_size": 10**12},
        {"encoder_layers": 10**9},
        {"d_model": 10**9},
        {"pad_token_id": -1},
        {"dropout": "x"},
    ):
        (folder / "config.json").write_text(json.dumps(config | lie), encoding="utf-8")
        with pytest.raises(ValueError, match="is not a usable checkpoint of this program"):
            Translator.load(folder)


@needs_pipes
def test_a_pipe_in_a_folder_of_theirs_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    marian_folder(tmp_path / "opus")
    for name in ("config.json", "source.spm", "vocab.json"):
        folder = shutil.copytree(tmp_path / "opus", tmp_path / name)
        (folder / name).unlink()
        os.mkfifo(folder / name)
        with pytest.raises(ValueError, match="is not a usable checkpoint of this program"):
            Translator.load(folder)


@needs_links
def test_a_folder_of_links_as_in_the_hubs_own_cache_is_read(tmp_path: Path) -> None:
    marian_folder(tmp_path / "blobs")
    (tmp_path / "snapshot").mkdir()
    for path in (tmp_path / "blobs").iterdir():
        (tmp_path / "snapshot" / path.name).symlink_to(path)
    theirs, ours = (Translator.load(tmp_path / name) for name in ("blobs", "snapshot"))
    assert ours.translate(FULL_TEXTS) == theirs.translate(FULL_TEXTS)
