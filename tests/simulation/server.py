"""A server whose clients come, wait, stall and leave, and what must hold for it."""

import asyncio
import re
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from askance import Budget
from askance.configuration.server import ServerConfig
from askance.core.errors import MissingAbility, PromptTooLong
from askance.retrieval.index.documents import Document
from askance.retrieval.index.writer import open_writer
from askance.serve.app import create_app
from askance.serve.limits import Limits
from tests.simulation.client import Exchange, exchange
from tests.simulation.server_index import (
    FILTER,
    KEYS,
    RIVERS,
    Written,
    index_folder,
    keys,
    text_of,
    visible,
)
from tests.simulation.servers import CALLER, LONGER, TREES, FaultyModel, FaultyReranker, WatchedModel

CHAT = "/v1/chat/completions"
METHODS = ("single", "single", "closed_book", "fixed_sentence", "flare", *LONGER)
EXPECTED = {200, 408, 422, 429, 502, 503, 504}
_OUTCOME = re.compile(r'askance_questions_total\{method="\w+",outcome="(\w+)"\} (\S+)')
_STATUS = re.compile(r'askance_requests_total\{.*status="(\d+)"\} (\S+)')


class Server:
    """A server in virtual time, and what its clients have seen and written.

    Args:
        folder: A folder for an index of its own, if clients may change it.
    """

    def __init__(self, timeline, folder):
        self.timeline, random = timeline, timeline.random
        timeline.statuses, timeline.num_asking, timeline.num_ended = Counter(), 0, Counter()
        self.chats, self.ended, self.written, self.is_written = [], [], {}, timeline.chance(0.2)
        self.index = shutil.copytree(index_folder(), folder / "index") if self.is_written else index_folder()
        faults = random.choice((0.0, 0.1, 0.4))
        self.model, self.reranker = FaultyModel(timeline, faults), FaultyReranker(timeline, faults / 2)
        self.limits = Limits(
            in_flight=random.randint(1, 3),
            waiting=random.randint(0, 3),
            traces=random.choice((2, 256)),
            trace_events=random.choice((20, 200_000)),
        )
        config = ServerConfig(
            method="single",
            models={"answer": WatchedModel(self.model)},
            index=self.index,
            rerank=self.reranker,
            budget=Budget(seconds=random.choice((None, None, 30.0))),
        )
        self.app = create_app(config, keys(), limits=self.limits, on_end=self.ended.append)
        routes = self.app.app.router.routes
        self.state = next(each.endpoint.__self__ for each in routes if each.path == CHAT)
        limits = self.limits
        timeline.log(f"{limits.in_flight} in flight, {limits.waiting} wait, {config.budget}, faults {faults}")
        timeline.log(f"the index {'changes' if self.is_written else 'stays the same'}")

    async def send(self, who, method, path, key, body=None, **how):
        CALLER.set(who)
        return await exchange(self.app, self.timeline, Exchange(who, method, path, key, body), **how)

    async def chat(self, who, key, case, stream, reads=1.0, delay=0.0, **how):
        """Ask a question; `case` is the method, the question and the filter."""
        method, question, where = case
        options = {"events": self.timeline.chance(0.3), **({"where": where} if where else {})}
        options |= TREES.get(method, {})
        messages = [{"role": "user", "content": question}]
        body = {"model": f"askance/{method}", "messages": messages, "stream": stream, "askance": options}
        request = Exchange(who, "POST", CHAT, key, body, reads, delay)
        self.chats.append((request, case, key))
        CALLER.set(who)
        self.timeline.num_asking += 1
        try:
            await exchange(self.app, self.timeline, request, **how)
        finally:
            self.timeline.num_asking -= 1
            self.timeline.num_ended[asyncio.get_running_loop().time()] += 1
        self.check_chat(request, key, where)
        return request

    def check_chat(self, request, key, where):
        check, limits = self.timeline.check, self.limits
        self.check_privacy(request.content.decode(), key, where, request.began)
        if request.is_cut:
            return
        errors = self.timeline.errors[request.who]
        is_for_user = any(isinstance(each, (PromptTooLong, MissingAbility)) for each in errors)
        check(request.status in EXPECTED or is_for_user, f"the status is {request.status}")
        check(request.status not in (400, 502, 504) or errors, f"{request.status} without a failure")
        if request.status == 429:
            check(int(request.headers["retry-after"]) >= 1, "429 without Retry-After")
            check(request.num_others >= limits.in_flight + limits.waiting, "429 while there was room")
        check(request.is_complete or request.error, "neither an answer nor an error")

    def rivers(self, key, where, began, must=False):
        """The rivers that a request which began then may learn of, or which it must find."""
        now, teams = next(self.timeline.ticks), {FILTER, None}
        shown = Written.must_show if must else Written.may_show
        written = {
            name for name, each in self.written.items() if each.key in (key, None) and shown(each, began, now)
        }
        return visible(key, where) | (written if where in teams else set())

    def check_privacy(self, text, key, where=None, began=None):
        began = next(self.timeline.ticks) if began is None else began
        known = self.rivers(key, where, began)
        others = {river for river in (RIVERS | set(self.written)) - known if river in text}
        self.timeline.check(not others, f"{key} learns of {others}")

    async def search(self, who, key, where=None, leaves=False):
        """A search for all that the key may see."""
        body = {"query": "Which river flows at Bonn?", "k": 50, **({"where": where} if where else {})}
        found = await self.send(who, "POST", "/v1/search", key, body, leaves=leaves)
        self.check_privacy(found.content.decode(), key, where, found.began)
        if found.is_complete:
            rivers = {hit["passage"]["id"] for hit in found.json["data"]}
            missing = self.rivers(key, where, found.began, must=True) - rivers
            self.timeline.check(not missing, f"{key} did not find {missing}")

    async def writer(self, number, key):
        """A client that adds a document, searches, and deletes it. It may leave or be cut off meanwhile."""
        timeline, who, name = self.timeline, f"client {number}", f"Neu{number}x"
        written = self.written.setdefault(name, Written(key))
        document = {"id": name, "text": text_of(name), "fields": {"team": "red"}}
        for method, path, body, end in (
            ("POST", "/v1/documents", document, "put"),
            ("DELETE", f"/v1/documents/{name}", None, "delete"),
        ):
            setattr(written, f"{end}_sent", next(timeline.ticks))
            how = timeline.random.random()
            how = {"leaves": how < 0.2, "is_killed": how > 0.8}
            done = await self.send(who, method, path, key, body, **how)
            if done.has_ended and not done.is_cut:
                expected = {200, 404} if end == "delete" else {200}
                timeline.check(done.status in expected, f"{method} {done.status}")
                is_kept = written.put_acknowledged < written.delete_sent
                timeline.check(done.status == 200 or not is_kept, f"{name} was lost")
                setattr(written, f"{end}_acknowledged", next(timeline.ticks))
            reader = timeline.random.choice((key, *KEYS))
            if reader != key:
                foreign = await self.send(who, "DELETE", f"/v1/documents/{name}", reader)
                timeline.check(foreign.status == 404, f"{reader} deletes what {key} wrote")
            await self.search(who, reader)
            await timeline.later(60)

    async def operator(self, number):
        """Another process, which adds a document for all keys, and deletes it."""
        name, ticks = f"Neu{number}x", self.timeline.ticks
        written = self.written.setdefault(name, Written(None))
        document = Document(name, name, text_of(name), path="rivers.jsonl", fields={"team": "red"})
        for end in ("put", "delete"):
            setattr(written, f"{end}_sent", next(ticks))
            with open_writer(self.index, encoder=None) as writer:
                writer.upsert(document) if end == "put" else writer.remove(name, path="rivers.jsonl")
                writer.commit()
            setattr(written, f"{end}_acknowledged", next(ticks))
            self.timeline.log(f"{end} {name} by another process")
            await self.search("operator", self.timeline.random.choice(KEYS))
            await self.timeline.later(60)

    async def check_documents(self):
        """Each key has its documents and no others."""
        for key in KEYS:
            page = await self.send("operator", "GET", "/v1/documents", key)
            self.check_privacy(page.content.decode(), key, began=page.began)
            missing = self.rivers(key, None, page.began, must=True) - {
                each["id"] for each in page.json["data"]
            }
            self.timeline.check(not missing, f"{key} has lost {missing}")

    async def client(self, number):
        """One client: it asks a question, and then looks at its trace, with its own and another key."""
        timeline, random, who = self.timeline, self.timeline.random, f"client {number}"
        await timeline.later(30)
        key, kind = random.choice(KEYS), random.random()
        if kind < 0.1:
            where = random.choice((None, FILTER))
            await self.search(who, key, where, leaves=timeline.chance(0.3))
            return
        if kind < 0.15:
            refused = await self.send(who, "POST", CHAT, random.choice((None, "no key at all")), {})
            timeline.check(refused.status == 401, f"without a key, {refused.status}")
            return
        if self.is_written and kind < 0.5:
            await (self.operator(number) if kind < 0.25 else self.writer(number, key))
            return
        where = random.choice((None, None, FILTER, 'team = "blue"'))
        case = random.choice(METHODS), f"Which river flows at Bonn {random.randrange(2)}?", where
        how = random.random()
        request = await self.chat(
            who,
            key,
            case,
            timeline.chance(0.6),
            reads=random.choice((1.0, 1.0, 0.97, 0.7)),
            delay=random.choice((0.0, 0.0, 0.0, 5.0, 20.0)),
            leaves=how < 0.25,
            is_killed=how > 0.9,
        )
        if request.is_complete:
            for reader in KEYS:
                trace = await self.send(who, "GET", f"/v1/traces/{request.trace_id}", reader)
                timeline.check(
                    trace.status == 404 or (reader == key and trace.status == 200), "a trace leaks"
                )
                began = request.began if reader == key else None
                self.check_privacy(trace.content.decode(), reader, began=began)

    async def check_end(self):
        """Nothing runs, waits or is held any more, and the numbers agree with what happened."""
        state, limits, check = self.state, self.limits, self.timeline.check
        counts = state.admission.running, state.admission.waiting, state.admission._slots._value
        check(counts == (0, 0, limits.in_flight), f"running, waiting and free places are {counts}")
        check(not +self.model.running, f"the model still runs for {+self.model.running}")
        check(self.model.most_running <= limits.in_flight, f"{self.model.most_running} ran at once")
        kept = [trace for _, trace in state.traces._traces.values()]
        events = [len(trace.events) for trace in kept]
        few = len(kept) <= limits.traces and (len(kept) < 2 or sum(events) <= limits.trace_events)
        check(few and sum(events) == state.traces._num_events, f"traces of {events} events are kept")
        check(all(trace.listener is None for trace in kept), "a trace still has its stream")
        await self.check_documents()
        text = (await self.send("operator", "GET", "/metrics", KEYS[0])).content.decode()
        self.timeline.statuses[200] -= 1  # that of the metrics themselves
        self.check_metrics(text)

    def check_metrics(self, text):
        check, statuses = self.timeline.check, Counter()
        for status, number in _STATUS.findall(text):
            statuses[int(status)] += int(float(number))
        check(statuses == +self.timeline.statuses, f"{statuses} are counted, not {self.timeline.statuses}")
        outcomes = Counter()
        for outcome, number in _OUTCOME.findall(text):
            outcomes[outcome] += int(float(number))
        chats = [request for request, _, _ in self.chats]
        num_cut = sum(request.is_cut for request in chats)
        answered = sum(request.is_complete for request in chats if not request.is_cut)
        failed = [each for each in chats if not each.is_cut and each.error and each.status not in (408, 429)]
        for name, least in (("answered", answered), ("failed", len(failed))):
            holds = least <= outcomes[name] <= least + num_cut
            check(holds, f"{outcomes[name]} {name} are counted, not {least}, {num_cut} were cut")
        total = outcomes.total()
        check(total <= answered + len(failed) + num_cut, f"{total} outcomes are counted")
        usages = [trace.usage() for trace in self.ended]
        for name, number in {
            "searches_total": sum(each.searches for each in usages),
            'tokens_total{kind="generated"}': sum(each.generated_tokens for each in usages),
            'tokens_total{kind="prompt"}': sum(each.prompt_tokens for each in usages),
            "question_seconds_count": total,
            "questions_running": 0,
            "questions_waiting": 0,
        }.items():
            lines = [line.split()[-1] for line in text.splitlines() if line.startswith(f"askance_{name} ")]
            check(float((lines or ["0"])[0]) == number, f"{name} is {lines}, not {number}")

    async def check_answers(self):
        """Once nothing fails, the whole answer to each question is that which was streamed before."""
        self.model.faults = self.reranker.faults = 0.0
        asked = list(self.chats)
        for request, case, key in asked:
            if request.is_complete and request.is_stream:
                self.model.variants = (int(request.answer[0].startswith("One")),)
                whole = await self.chat("afterwards", key, case, stream=False)
                if whole.is_complete:
                    sent, expected = request.answer, whole.answer
                    self.timeline.check(sent == expected, f"{request.who} was sent {sent}, not {expected}")


async def server(timeline):
    """A server with up to 14 clients, all of whom have gone at the end."""
    with tempfile.TemporaryDirectory() as folder:
        serving = Server(timeline, Path(folder))
        numbers = range(timeline.random.randint(2, 14))
        await asyncio.gather(*(asyncio.create_task(serving.client(number)) for number in numbers))
        timeline.check_tasks()
        await serving.check_end()
        if not serving.is_written:  # otherwise an answer may have passages that have gone
            await serving.check_answers()
