"""The public names, declared only here; `__init__.py` loads each on first use."""

from askance.ask import Engine as Engine
from askance.ask import Result as Result
from askance.configuration.settings import EngineConfig as EngineConfig
from askance.configuration.settings import open_engine as open_engine
from askance.configuration.sources import read_config as read_config
from askance.conversation import Conversation as Conversation
from askance.core.answers import Answer as Answer
from askance.core.answers import Citation as Citation
from askance.core.answers import Usage as Usage
from askance.core.errors import AskanceError as AskanceError
from askance.core.errors import InputError as InputError
from askance.core.extensions import implements as implements
from askance.core.parameters import Parameters as Parameters
from askance.core.parameters import checked_dataclass as checked_dataclass
from askance.core.parameters import parameter as parameter
from askance.core.ports import Encoder as Encoder
from askance.core.ports import Entailment as Entailment
from askance.core.ports import Method as Method
from askance.core.ports import Model as Model
from askance.core.ports import Needs as Needs
from askance.core.ports import PairScorer as PairScorer
from askance.core.ports import Reranker as Reranker
from askance.core.ports import Retriever as Retriever
from askance.core.ports import Run as Run
from askance.core.token_ledger import Budget as Budget
from askance.core.trace import Trace as Trace
from askance.core.types import Attention as Attention
from askance.core.types import Chat as Chat
from askance.core.types import Cut as Cut
from askance.core.types import Demo as Demo
from askance.core.types import GenerateRequest as GenerateRequest
from askance.core.types import Generation as Generation
from askance.core.types import Hit as Hit
from askance.core.types import Passage as Passage
from askance.core.types import Question as Question
from askance.core.types import Raw as Raw
from askance.core.types import Sampling as Sampling
from askance.core.types import Scored as Scored
from askance.core.types import Span as Span
from askance.core.types import StopCondition as StopCondition
from askance.core.types import Token as Token
from askance.core.types import Turn as Turn
from askance.core.types import Want as Want
from askance.evaluation.datasets import Example as Example
from askance.methods.common.generation_state import GenerationState as GenerationState
from askance.methods.common.generation_state import WritesAnswer as WritesAnswer
from askance.methods.common.question_rewriter import QuestionRewriter as QuestionRewriter
from askance.text.answers import SentenceEnd as SentenceEnd
from askance.text.answers import TextEnd as TextEnd

__version__: str
__all__: list[str]
