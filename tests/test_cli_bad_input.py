"""Each command refuses what it can't do: exit code 2, a message with the remedy, and nothing is written."""

import json
import shlex
import subprocess
import sys

import pytest

from askance.configuration.build import load_encoder
from askance.retrieval.index.build import build_index
from tests.evaluation.hand_made import record, written
from tests.test_cli_runs import write_biography, write_long_answer

COMMANDS = """
ask ' '                                           -> the question is empty
ask "Q? \udcff"                                   -> not valid Unicode
ask                                               -> argument 'question'
ask Who is it                                     -> (is it): put the question in quotes
dance                                             -> dance
ask Q?                                            -> name an index (--index DIR
ask Q? --index absent                             -> absent
ask Q? --method flair                             -> did you mean 'flare'
ask Q? --method closed_book --where 'a = 1'       -> nothing is searched: leave --where out
ask Q? --method closed_book --retriever dense     -> --retriever dense is given without an index
ask Q? --method closed_book --encoder scripted    -> an encoder is given, but nothing uses it
ask Q? --method closed_book --model attend=scripted --model scripted -> uses no model in the role attend
ask Q? --method airrag --index idx --set verifier=emb -> name one, for example --encoder bundled
ask Q? --retriever dens --index vec               -> did you mean 'dense'
ask Q? --encoder bundeld --retriever dense --index vec -> did you mean 'bundled'
ask Q? --model bundeld                            -> did you mean 'bundled'
ask Q? --model anser=scripted                     -> --model: unknown role 'anser'
ask Q? --model gpt-4o                             -> write openai:gpt-4o, or openai:gpt-4o@
ask Q? --model Qwen/Qwen2.5-7B                    -> write hf:Qwen/Qwen2.5-7B, or openai:
ask Q? --model tiny.gguf                          -> write gguf:tiny.gguf, or
ask Q? --model /                                  -> write hf:/, or
ask Q? --model scripted --model bundled           -> more than once
ask Q? --set pasages=3                            -> did you mean 'passages'
ask Q? --set passages=many                        -> expected int
ask Q? --set threshold=-7                         -> expected 0 or more
ask Q? --set threshold=70%  -> askance calibrate --quick --method dragin --model scripted --index DIR
ask Q? --set passages=70%                         -> can be given so, and that of dragin is threshold.
ask Q? --method single --set passages=1/question  -> only a threshold can be given so, and single has none.
ask Q? --set passages                             -> write --set PARAMETER=VALUE
ask Q? --set passages=1 --set passages=2          -> more than once
ask Q? --method blender --set single.pasages=3    -> did you mean 'passages'
ask Q? --method blender --set singel.passages=3   -> did you mean 'single'
ask Q? --prompts hotpot                           -> did you mean 'hotpotqa'
ask Q? --prompts absent.toml                      -> can't read the prompts file absent.toml
ask Q? --prompts absent.py?class=IIRC             -> can't read the prompts file absent.py
ask Q? --set prompts=hotpot                       -> did you mean 'hotpotqa'
ask Q? --prompts iirc --set prompts=iirc          -> give one of them
ask Q? --trace .                                  -> it is a folder
ask Q? --trace absent/t.jsonl                     -> the folder absent does not exist
ask Q? --index notes                              -> askance index notes --out notes-index
ask Q? --abstain-below=1.5                        -> '1.5': give a confidence from 0 to 1, or auto.
ask Q? --abstain-below=nan                        -> 'nan': give a confidence from 0 to 1, or auto.
chat --trace . --method closed_book               -> it is a folder
search x --index absent                           -> absent
search x                                          -> no index is named
search x y                                        -> (y): put the query in quotes
search x --index vec -k 0                         -> -k
search x --index vec --retriever dens             -> did you mean 'dense'
search x --index vec --retriever bm25 --encoder scripted -> an encoder is given, but nothing uses it
search x --index idx --retriever bm25?k1=-1       -> of the retriever bm25: give a number from 0 to 100
search x --index idx --retriever bm25?b=1.1       -> b='1.1' of the retriever bm25: give a number from 0 to 1
search x --index idx --retriever bm25?c=1         -> unknown retriever option 'c' in 'bm25': there is none
search x --index idx --retriever dense            -> askance index DOCS --out idx --encoder bundled
search x --index vec --where 'year >> 1'          -> the filter, character 7
search x --index vec --where 'yaer = 1'           -> did you mean 'year'
search x --index vec --where "year = '2020'"      -> without quotes
index absent.txt --out new                        -> absent.txt
index notes --out notes                           -> --out notes-index
index --out vec                                   -> no documents are named
index x.txt --out vec --delete a                  -> index and delete in two commands
index --out vec --delete-where 'yaer = 1'         -> did you mean 'year'
index --out vec --delete-where 'year > 0'         -> would be empty
index notes --out vec --chunk-words 50            -> build another index, in another folder
trace absent.jsonl                                -> can't read the trace
trace notes --question bonn                       -> holds no run
trace done                                        -> name one, such as --question bonn
trace done --question bnn                         -> no finished question 'bnn': did you mean 'bonn'?
trace done --question xyz                         -> records.jsonl there has the ids
prompts .                                         -> can't read the prompts
methods dragon                                    -> did you mean 'dragin'
datasets hotpot           -> unknown dataset 'hotpot' (write NAME:FILE): did you mean 'hotpotqa'?
datasets hotpotqa                                 -> names no file: write hotpotqa:FILE
datasets csv:absent.csv                           -> can't read absent.csv
config --seed many                                -> --seed
config --budget calls=x                           -> --budget: parameter calls='x' of the budget
config --config absent.toml                       -> can't read the configuration absent.toml
config --config absent.jsonl                      -> can't read the trace absent.jsonl
config --config .                                 -> can't read the configuration settings.json
eval --dataset own.jsonl --out r                  -> write jsonl:own.jsonl for questions of your own
eval --dataset own.CSV --out r                    -> write csv:own.CSV
eval --dataset hotpot:own.json --out r            -> did you mean 'hotpotqa'
eval --dataset sample --out r --method single     -> name an index
eval --dataset jsonl:flawed.jsonl --out r         -> flawed.jsonl, line 1, field answers: missing
eval --dataset jsonl:crash.jsonl --out r          -> field answers: not a list, found 'It ran out of memory'.
{DONE} --seed 1                                   -> (seed: 0, now 1): name another --out
{DONE} --set max_tokens=5                         -> (parameter max_tokens: 128, now 5)
{DONE} --limit 1                                  -> is not selected now
{DONE} --limit 1 --sample 1                       -> limit and sample both say which questions to ask
{DONE} --metric f2                                -> unknown metric 'f2': did you mean 'f1'?
{DONE} --budget calls=9                           -> (budget calls: none, now 9)
{DONE} --budget cals=9                            -> 'cals' of the budget: did you mean 'calls'?
{DONE} --budget seconds=0                         -> seconds=0.0 of the budget: expected 0.001 or more
gates                                             -> no outcomes are named: give a file
gates absent.jsonl                                -> absent.jsonl
gates absent.jsonl --metric citation_recall       -> needs more than the answer and the gold answers
gates absent.jsonl --metric f2                    -> did you mean 'f1'
signals --dataset sample --out made/x             -> name an index
signals --dataset sampl --out made/x --index idx  -> did you mean 'sample'
gates absent.jsonl --gate a_module:absent         -> names no function that can be imported
ask Q? --method dragin --set trigger=evry_sentence -> did you mean 'every_sentence'
ask Q? --method dragin --set trigger=a_module:absent -> names no function that can be imported
ask Q? --method dragin --set trigger=broken:gate  -> broken:gate can't be imported: ZeroDivisionError
ask Q? --method dragin --set trigger=json:dumps   -> does not declare itself a gate
ask Q? --method dragin --set trigger=p_true       -> can't be a trigger, which only knows a sentence
ask Q? --method dragin_paper --set trigger=flare  -> expected one of rind, token_probability
ask Q? --method dragin --set trigger=none         -> every_tokens or a gate
ask Q? --method dragin --set search_first=maybe   -> expected true or false or one of auto
ask Q? --method single --set guard=suport         -> did you mean 'support'
ask Q? --method single --set guard=flare          -> unknown guard 'flare'
ask Q? --method single --set guard_threshold=nan  -> guard_threshold
calibrate --dataset sampel                        -> did you mean 'sample'
calibrate --dataset jsonl:absent.jsonl            -> absent.jsonl
calibrate --dataset sample --method single        -> single has no parameter
calibrate --dataset sample --parameter passages   -> takes int
calibrate --dataset sample --set passages=0       -> expected 1 or more
calibrate --dataset sample --preset llama2-13b-chat/hotpotqa -> did you mean 'dragin/llama2-13b-chat/hotpotqa'
calibrate --dataset sample --preset absent.toml   -> can't read the preset absent.toml
calibrate --dataset sample --out absent/p.toml    -> the folder absent does not exist
calibrate --dataset sample                        -> name an index
calibrate --dataset sample --searches -1          -> --searches
calibrate --dataset sample --metric f2            -> unknown metric 'f2'
calibrate --dataset sample --index idx --price .01 -> --price 0.01 is given without --metric
calibrate                                         -> --dataset
calibrate --quick --index idx                     -> no fingerprint distinguishes it: name a model
calibrate --quick --metric f1                     -> --metric has no use with --quick here
calibrate --percentile 70 --limit 9               -> --limit has no use without --quick here
calibrate --percentile 70 --trials 3              -> --trials has no use without --quick here
ask Q? --method draft_agreement --set draft_temperature=inf -> expected a value from 0.01 to 2
calibrate --percentile 70                         -> no calibration is kept. Make one: askance
calibrate --percentile 101                        -> --percentile
judge life                                        -> no judge is named: give --citations hf:NAME
judge life --facts scripted                       -> --facts is given without --index DIR
judge life --index .                              -> --index is given without --facts SPEC
judge life --citations scripted                   -> no answer of the run
judge long --citations bundled                    -> unknown entailment 'bundled'
judge life --facts scripted --index absent        -> the index absent
judge life --gamma -1 --citations scripted        -> --gamma
judge absent --citations scripted                 -> absent holds no run
judge life --mauve scripted                       -> has no gold answer, with which MAUVE compares
judge long --mauve hf:absent/                     -> absent
export trec life --out absent/a.run               -> the folder absent does not exist
export trec absent --qrels --out n.qrels          -> absent holds no run
export alce life --out n.json  -> is over biographies, and the format alce is for runs over asqa
export factscore long --out n.json                -> is over asqa, and the format factscore is for
export factscore life --out absent/a.json         -> the folder absent does not exist
export factscore life --out flawed.jsonl          -> it exists already
export alce long --dataset asqa:absent.json --out n.json -> can't read absent.json
judge life --sheet absent.csv                     -> absent.csv
judge life --sheet flawed.jsonl                   -> flawed.jsonl is neither .csv nor .tsv
judge a b --sheet absent.csv                      -> --sheet takes one run, at most two sheets, and no other
judge long --sheet x.csv --gamma 10               -> --gamma has no use without --facts: leave it out
judge long --citations scripted --passages 5      -> --passages has no use without --facts: leave it out
judge a --sheet x.csv --citations scripted        -> --sheet takes one run, at most two sheets, and no other
export sheet absent --out n.csv                   -> absent holds no run
export alce absent --out n.json                   -> absent holds no run
export alce long                                  -> --out
compare                                           -> RUN
compare a a                                       -> is given more than once
compare absent                                    -> absent holds no run
compare a b --base c                              -> unknown run 'c' in --base (and no such folder
compare a unfinished                              -> is not finished (1 of 3 questions)
compare a --metric f2                 -> with --metric scores a run by another one): did you mean 'f1'
compare a --json --markdown                       -> exclude each other
compare a --csv --latex                           -> exclude each other
compare a --questions -1                          -> --questions
compare a --price prompt=1                        -> no price for generated
compare a --price prompt=x                        -> parameter prompt='x' of the prices: expected float
report absent --out absent/page.html              -> the folder absent does not exist
report a --out a                                  -> it is a folder
report absent --out page.html                     -> absent holds no run
report a a --out page.html                        -> is given more than once
report a                                          -> --out
reproduce dragn                                   -> did you mean 'dragin'
reproduce dragin 22                               -> unknown table '22' of Su et al. 2024, DRAGIN
reproduce dragin 2 --dataset sample               -> unknown dataset 'sample' of the paper's tables
reproduce airrag 3 --dataset hotpotqa=sample      -> name one with --out FOLDER
reproduce airrag 3 --dataset hotpotqa=sample --out r -> no cell of these tables can be run:
reproduce dragin 2 --dataset hotpotqa=sample --out r -> so write hotpotqa:FILE
reproduce dragin 2 --dataset hotpotqa:absent --out r -> can't read absent: No such file
reproduce airrag 3 --dataset hotpotqa=sample --preset nope --out r -> unknown preset 'nope'
reproduce dragin 2 --scale 0                      -> --scale
reproduce dragin 2 --axis passages=1              -> unknown axis 'passages' of these figures
reproduce airrag figure2                          -> unknown table 'figure2' of Feng et al. 2025
reproduce airrag figure3 --axis passges=1,5       -> did you mean 'passages'
reproduce airrag figure3 --axis passages          -> parameter passages='' of method
reproduce airrag figure3 --axis passages=1,some   -> parameter passages='some' of method
reproduce airrag figure4 --axis rollouts=0        -> parameter rollouts=0 of method
reproduce airrag figure5 --axis verifier=jdc      -> verifier
reproduce selfrag figure3c --axis threshold=low   -> parameter threshold='low' of method selfrag
"""
"""Commands, each with a fragment of its message. {DONE} is the command of the run in the folder `done`."""
ROWS = [[part.strip() for part in line.split("->", 1)] for line in COMMANDS.strip().splitlines()]
DONE = "eval --dataset jsonl:rivers.jsonl --method closed_book --model scripted --out done"


@pytest.fixture(scope="module")
def place(tmp_path_factory, sample_index):
    """A folder with all that the commands name."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "idx").symlink_to(sample_index)
    (folder / "notes").mkdir()
    (folder / "notes" / "a.txt").write_text("The Arno flows through Florence.")
    rows = [{"id": f"t{year}", "text": "A town by the river.", "year": year} for year in (2020, 2021)]
    (folder / "towns.jsonl").write_text("\n".join(map(json.dumps, rows)))
    build_index([folder / "towns.jsonl"], folder / "vec", encoder=load_encoder("scripted"))
    for name, row in {
        "rivers": {"id": "bonn", "question": "Which river?", "answers": ["Rhine"]},
        "flawed": {"question": "Who?"},
        "crash": {"question": "Why did it stop?", "answers": "It ran out of memory"},
    }.items():
        lines = [row, row | {"id": "cairo"}] if name == "rivers" else [row]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "broken.py").write_text("1 / 0")
    written(folder / "a", [record(1)])
    written(folder / "b", [record(1)])
    written(folder / "unfinished", [record(1)], num_questions=3)
    write_long_answer(folder / "long")
    write_biography(folder / "life")
    command = [sys.executable, "-m", "askance", *DONE.split()]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("command", "told"), ROWS, ids=[command for command, _ in ROWS])
def test_bad_input_exits_with_2_and_writes_nothing(run, place, monkeypatch, command, told):
    monkeypatch.chdir(place)
    before = files_of(place)
    words = shlex.split(command.replace("{DONE}", DONE))
    if words[0] in ("ask", "calibrate", "eval", "chat") and "--model" not in words:
        words += ["--model", "scripted"]
    if words[0] == "calibrate" and "--method" not in words:
        words += ["--method", "flare"]
    code, out, err = run(*words, columns=1000)
    assert (code, out == "") == (2, "--json" not in words)
    assert told in " ".join(err.split())
    assert files_of(place) == before


JSON = [
    ("ask Q? --model gpt-4o", "UnknownName", "unknown model 'gpt-4o'"),
    ("ask", "MissingParameter", "question"),
    ("ask Q? --bogus", "NoSuchOption", "--bogus"),
    ("eval --dataset sample --out r --index absent", "BadIndex", "absent"),
]


@pytest.mark.parametrize(("command", "kind", "told"), JSON)
def test_an_error_as_json_is_one_object(run, place, monkeypatch, command, kind, told):
    monkeypatch.chdir(place)
    code, out, err = run(*shlex.split(command), "--json")
    printed = json.loads(out)
    assert (code, list(printed)) == (2, ["error"])
    assert (printed["error"]["type"], printed["error"]["exit_code"]) == (kind, 2)
    assert told in printed["error"]["message"]
    assert told in err
