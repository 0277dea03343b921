"""Test tokenizers with a SentencePiece model and no tokenizer.json, as the Self-RAG checkpoints have them."""

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
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load_hf(str(folder))


def pieces_of_training(folder, text):
    """Return the pieces of the slow tokenizer of training, which encodes texts between added tokens alone."""
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "tokenizer.model"))
    parts = re.split("(" + "|".join(map(re.escape, ALL_TOKENS)) + ")", text)
    lists = [[part] if part in ALL_TOKENS else processor.encode(part, out_type=str) for part in parts if part]
    return [piece for pieces in lists for piece in pieces]


def test_a_checkpoint_is_read_as_it_was_trained(folder, model, tmp_path):
    vocabulary = ReflectionVocabulary.of(model)
    assert not (folder / "tokenizer.json").exists()
    assert [vocabulary.ids[token] for token in ALL_TOKENS] == [350 + at for at in range(15)]
    question = (Span("### Instruction:\n"), untrusted("Who is it?"), Span("\n\n### Response:\n" + RETRIEVAL))
    passage = (Span("<paragraph>"), untrusted("Arno"), Span("\n"), untrusted("The é river."))
    end = Span("</paragraph>")
    prompt = "".join(span.text for span in (*question, *passage, end))
    ids = model._encoding.encode(Raw((Span(prompt),)))
    assert model.pieces(ids) == ("<s>", *pieces_of_training(folder, prompt))
    assert model._encoding.encode(Raw(question, (*passage, end))) == ids, "the parts do not matter"
    assert model.tokenize([Span(f"{RELEVANT}the")])[1:] == model.tokenize(" the")
    assert model.pieces(model.tokenize([Span(f"{RELEVANT}the")])) == (RELEVANT, "▁the")
    assert model.decode(model.tokenize([Span(f"{RELEVANT}the é")])) == f"{RELEVANT} the é"
    save_parts(*load_parts(str(folder)), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = load_hf(str(tmp_path))
    text = f"{RETRIEVAL}<paragraph>the river</paragraph>{RELEVANT}the"
    assert again.tokenize([Span(text)]) == model.tokenize([Span(text)]), "the same after it was saved again"


@pytest.mark.parametrize(("adds_bos", "adds_eos"), [(False, False), (False, True), (True, True)])
def test_without_bos_or_with_an_end_token(tmp_path, model, adds_bos, adds_eos):
    settings = {"add_bos_token": adds_bos, "add_eos_token": adds_eos}
    other = load_hf(str(save_slow_checkpoint(tmp_path, legacy=True, **settings)))
    passage = untrusted("巴黎 🙂</s>[Relevant]")
    prompt = Raw((Span(f"Who is é?{RETRIEVAL}<paragraph>"), passage, Span("</paragraph>")))
    theirs, ours = model._encoding.encode(prompt), other._encoding.encode(prompt)
    assert ours == (theirs if adds_bos else theirs[1:])
    assert theirs[:1] == (1,)
    assert not {2, *model.tokenize([Span(RELEVANT)])} & {*ours}, "no end, and no control token of a passage"
    assert other.decode(other.tokenize("巴黎 🙂</s>")) == "巴黎 🙂</s>", "byte by byte, and back"


def test_a_missing_setting_legacy_is_a_warning(tmp_path, folder, run):
    says = r'does not say `legacy` in tokenizer_config\.json.*"legacy": true'
    with pytest.warns(UserWarning, match=says):
        untold = load_hf(str(save_slow_checkpoint(tmp_path / "untold")))
    _, _, err = run("ask", "Who?", "--method", "closed_book", "--model", f"hf:{tmp_path / 'untold'}")
    assert re.search(f"^the tokenizer of model .*{says}", err, re.MULTILINE)
    assert "sentencepiece.py" not in err, "the place in the code is of no use to a user"
    assert untold.pieces(untold.tokenize([Span(f"{RELEVANT}the")]))[1] != "▁the"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_hf(str(save_slow_checkpoint(tmp_path / "new", legacy=False)))


@pytest.mark.parametrize("missing", ["sentencepiece", "protobuf"])
def test_only_an_error_about_such_files_asks_for_a_package(missing, monkeypatch):
    monkeypatch.setitem(reading._PACKAGES, missing, lambda: False)
    reading.check_readers("m", ValueError("the file is damaged"))
    for message in ("`tiktoken` is required to read a `tiktoken` file.", "SentencePiece can't be imported"):
        with pytest.raises(MissingExtra, match=f"'{missing}'"):
            reading.check_readers("m", ValueError(message))
    monkeypatch.undo()
    reading.check_readers("m", ValueError("`tiktoken` is required to read a `tiktoken` file."))
