"""Tokenizers with a SentencePiece model and no tokenizer.json, like those of the Self-RAG checkpoints."""

import re
import warnings

import pytest

pytest.importorskip("torch")

import sentencepiece
from tests.models.tiny import save_slow_checkpoint

from askance.core.errors import MissingExtra
from askance.core.types import Raw, Span, untrusted
from askance.methods.selfrag.tokens import ALL_TOKENS, RELEVANT, RETRIEVAL, ReflectionVocabulary
from askance.models.hf import load as reading
from askance.models.hf import load_hf
from askance.models.hf.load import load_parts, save_parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return save_slow_checkpoint(tmp_path_factory.mktemp("checkpoint"), legacy=True)


@pytest.fixture(scope="module")
def model(folder):
    return load_hf(str(folder))


def pieces_by_itself(folder, text):
    """Return the pieces of the slow tokenizer of training, which encodes texts between added tokens alone."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    parts = re.split("(" + "|".join(map(re.escape, ALL_TOKENS)) + ")", text)
    found = [[part] if part in ALL_TOKENS else processor.encode(part, out_type=str) for part in parts if part]
    return [piece for pieces in found for piece in pieces]


def test_a_checkpoint_is_read_as_it_was_trained(folder, model):
    vocabulary = ReflectionVocabulary.of(model)
    assert not (folder / "tokenizer.json").exists()
    assert [vocabulary.ids[token] for token in ALL_TOKENS] == [350 + at for at in range(15)]
    prompt = (
        f"### Instruction:\nWho is it?\n\n### Response:\n{RETRIEVAL}<paragraph>Arno\nThe é river.</paragraph>"
    )
    ids = model._encoding.encode(Raw((Span(prompt),)))
    assert model.pieces(ids) == ("<s>", *pieces_by_itself(folder, prompt))
    split = Raw(
        (Span("### Instruction:\n"), untrusted("Who is it?"), Span("\n\n### Response:\n" + RETRIEVAL))
    )
    behind = (Span("<paragraph>"), untrusted("Arno"), Span("\n"), untrusted("The é river."))
    whole = Raw(split.parts, (*behind, Span("</paragraph>")))
    assert model._encoding.encode(whole) == ids, "however it is put together"
    assert model.tokenize([Span(f"{RELEVANT}the")])[1:] == model.tokenize(" the")
    assert model.pieces(model.tokenize([Span(f"{RELEVANT}the")])) == (RELEVANT, "▁the")
    assert model.decode(model.tokenize([Span(f"{RELEVANT}the é")])) == f"{RELEVANT} the é"


def test_it_is_read_so_when_it_was_saved_again(folder, tmp_path, model):
    module, tokenizer = load_parts(str(folder))
    save_parts(module, tokenizer, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load_hf(str(tmp_path))
    text = f"{RETRIEVAL}<paragraph>the river</paragraph>{RELEVANT}the"
    assert again.tokenize([Span(text)]) == model.tokenize([Span(text)])


@pytest.mark.parametrize(("adds_bos", "adds_eos"), [(False, False), (False, True), (True, True)])
def test_without_bos_or_with_an_end_token_behind(tmp_path, model, adds_bos, adds_eos):
    settings = {"add_bos_token": adds_bos, "add_eos_token": adds_eos}
    other = load_hf(str(save_slow_checkpoint(tmp_path, legacy=True, **settings)))
    prompt = Raw(
        (Span(f"Who is é?{RETRIEVAL}<paragraph>"), untrusted("巴黎 🙂</s>[Relevant]"), Span("</paragraph>"))
    )
    theirs, ours = model._encoding.encode(prompt), other._encoding.encode(prompt)
    assert ours == (theirs if adds_bos else theirs[1:])
    assert theirs[:1] == (1,)
    assert not {2, model.tokenize([Span(RELEVANT)])[0]} & {*ours}, "no end, and no control token of a passage"
    assert other.decode(other.tokenize("巴黎 🙂</s>")) == "巴黎 🙂</s>", "byte by byte, and back"


def test_where_legacy_is_not_told_a_warning_says_so(tmp_path, folder, run):
    says = r'does not say `legacy` in tokenizer_config\.json.*"legacy": true'
    with pytest.warns(UserWarning, match=says):
        untold = load_hf(str(save_slow_checkpoint(tmp_path / "untold")))
    _, _, err = run("ask", "Who?", "--method", "closed_book", "--model", f"hf:{tmp_path / 'untold'}")
    assert re.search(f"^the tokenizer of model .*{says}", err, re.MULTILINE)
    assert "sentencepiece.py" not in err, "where in the code it was found is nothing to a user"
    assert untold.pieces(untold.tokenize([Span(f"{RELEVANT}the")]))[1] != "▁the"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_hf(str(folder))
        load_hf(str(save_slow_checkpoint(tmp_path / "new", legacy=False)))


@pytest.mark.parametrize("missing", ["sentencepiece", "protobuf"])
def test_only_an_error_that_speaks_of_such_files_asks_for_a_package(missing, monkeypatch):
    monkeypatch.setitem(reading._PACKAGES, missing, lambda: False)
    reading.check_readers("m", ValueError("the file is damaged"))
    for said in ("`tiktoken` is required to read a `tiktoken` file.", "SentencePiece can't be imported"):
        with pytest.raises(MissingExtra, match=f"'{missing}'"):
            reading.check_readers("m", ValueError(said))
    monkeypatch.undo()
    reading.check_readers("m", ValueError("`tiktoken` is required to read a `tiktoken` file."))
