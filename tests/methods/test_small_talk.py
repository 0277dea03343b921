"""Small talk in a conversation: what counts as such, and that it is answered without a search."""

import pytest

from askance.ask import Engine
from askance.confidence import Abstaining, default_calibration
from askance.configuration.methods import make_method
from askance.conversation import Conversation
from askance.core.trace import Generated
from askance.core.types import Passage
from askance.methods.common.small_talk import is_small_talk
from askance.models.scripted import ScriptedModel, ScriptedPairScorer
from askance.retrieval.scripted import ScriptedRetriever

SMALL_TALK = """
hello|Hi there!|Hey, how are you?|Good morning|Good evening, nice to meet you|thanks!
Thank you very much.|Thanks, that was very helpful.|OK, great.|Cool, thx|Perfect. Thanks a lot!|I see.
Got it, thanks|That makes sense.|Bye|Goodbye, see you later!|Have a nice day|Sorry|never mind
Yes, please.|No, thanks.|what did you just say?|What was my last question?
how many questions have I asked?|What did I ask you first?|What have we talked about so far?
repeat that in one sentence|Can you say that again?|Please rephrase your answer.
Could you summarise our conversation?|Shorten that, please|Summarize this in two sentences.
Why did you say that?|Thanks, can you repeat that?|Do you remember what I asked before?|who are you?
What's your name?|Are you a robot?|What can you do?|Who made you?|How do you work?
Hello, can you help me?|You're welcome
"""
QUESTIONS = """
Who directed Fanny and Alexander?|and where was he born?|And when?|Why?|Where?|Who was she?
What about the Elbe?|What does that mean?|How many are there?|How old is it?|Is it good?|Was it great?
Tell me more about it.|What did he say?|What did Darwin say about pigeons?
How many questions has the exam?|Are you sure?|Who asked the first question at the meeting?
What is your refund policy?|What can I do if my order is late?|Do you have it in stock?|Do you have it?
When are you open?|Can you help me find the warranty form?|Who made the first airplane?
How does it work?|How do you do that?|Can you do it there?|Can I see it?|What can you tell me about it?
Can you say more about that?|What is the name of the company?|Summarize the report.
Repeat the dosage for children.|Thanks! And where was he born?|Hello, who wrote Emma?
OK, and the second one?|Which of them is older?|Good Morning, Vietnam: who directed it?|Who sang Hello?
How do I say hello in Norwegian?|Is that right?|Danke!|12?|...
"""


def turns(table):
    return table.strip().replace("\n", "|").split("|")


def test_small_talk_is_told_from_questions_and_follow_ups():
    assert len(turns(SMALL_TALK)) >= 40 <= len(turns(QUESTIONS))
    assert [turn for turn in turns(SMALL_TALK) if not is_small_talk(turn)] == []
    assert [turn for turn in turns(QUESTIONS) if is_small_talk(turn)] == []
    assert not is_small_talk("thanks " * 100)


BORN = "Ingmar Bergman was born in Uppsala. So the answer is Uppsala."
UPPSALA = Passage("p", "Ingmar Bergman", "Ingmar Bergman was born in Uppsala.")


@pytest.mark.parametrize(
    ("capabilities", "source"), [({"raw", "attend"}, "from memory, 0.99"), ({"chat"}, "from memory")]
)
def test_a_reply_is_written_from_the_conversation_without_a_search_and_never_abstained(capabilities, source):
    """The engine abstains from every answer after a search."""
    model = ScriptedModel([BORN, "I said Uppsala.", BORN], capabilities=capabilities)
    retriever = ScriptedRetriever((UPPSALA,))
    strict = Abstaining(ScriptedPairScorer(), 1.0, default_calibration())
    single = make_method("single", {"ask_short_answer": False})
    engine = Engine(single, {"answer": model}, retriever, abstaining=strict)
    conversation = Conversation(engine)
    assert conversation.ask("Where was Ingmar Bergman born?").answer.abstained
    result = conversation.ask("What did you just say?")
    answer = result.answer
    assert (answer.text, answer.abstained, answer.source) == ("I said Uppsala.", "", source)
    (decision,) = [each for each in result.trace.decisions if each.name == "retrieve"]
    assert (decision.outcome, decision.why) == ("none", "small talk: nothing to search for")
    (written,) = [event for event in result.trace.events if isinstance(event, Generated)]
    for shown in ("Not in the documents", "Where was Ingmar Bergman born?", "of the user: 1", "small talk"):
        assert written.prompt.count(shown) == 1
    assert retriever.queries == ["Where was Ingmar Bergman born?"]
    engine.ask("hello")
    assert retriever.queries[1:] == ["hello"], "a single question is always searched for"
