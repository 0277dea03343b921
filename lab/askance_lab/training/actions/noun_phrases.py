"""Noun phrases for the answers of questions, such as "the one who composed Carmen"."""

import re

_BE = r"(?:is|are|was|were)"
_IRREGULAR = (
    "is|are|was|were|has|had|can|could|will|would|may|came|led|won|wrote|became|took|made|held|gave|ran|built|"
    "began|met|saw|said|left|lost|sold|sent|set|put|grew|knew|drew|fought|taught|brought|bought|thought|found"
)
_NEEDS_REORDERING = re.compile(r",|\b(?:do|does|did|called|named)\b")
"""The words and commas that mark a question whose noun phrase would need another word order."""
_VERB = rf"(?:(?:{_IRREGULAR}|\w+ed|(?!\w*ss\b)\w+s) .+)"
_NOUN = r"((?:[a-z][\w-]* ){0,2}?[a-z][\w-]*?)"
_RULES = (
    (re.compile(rf"(?:What|Who) {_BE} (?:the )?name of (.+)"), r"{0}"),
    (re.compile(rf"(?:What|Who) {_BE} (the .+)"), r"{0}"),
    (re.compile(rf"Who ({_VERB})"), r"the one who {0}"),
    (re.compile(rf"(?:What|Which) {_NOUN} ({_VERB})"), r"the {0} that {1}"),
    (re.compile(rf"Where ({_BE}) (.+) (\w+ed|held|born|found|built|made|shot|set|kept|won|lost|fought)"),
     r"the place where {1} {0} {2}"),
)  # fmt: skip


def noun_phrase(question: str) -> str:
    """Return a noun phrase for the question's answer, such as "the one who composed Carmen".

    The result is an empty string if no rule fits the question.
    """
    text = question.strip().removesuffix("?").strip()
    if _NEEDS_REORDERING.search(text):
        return ""
    matches = ((rule.fullmatch(text), template) for rule, template in _RULES)
    return next((template.format(*match.groups()) for match, template in matches if match), "")


_FALLBACKS = (
    (re.compile(r"(?:\w+ )?(?:who|whom|whose)\b"), "that person"),
    (re.compile(r"(?:\w+ )?where\b"), "that place"),
    (re.compile(r"(?:\w+ )?when\b"), "that time"),
    (re.compile(r"how (?:many|much|long|old|far|big|tall|high)\b"), "that number"),
)
_AUXILIARY = "is|are|was|were|do|does|did|has|have|had|can|could|will|would|may"
_ASKED_NOUN = re.compile(
    rf"(?:\w+ )?(?:what|which) (?!(?:{_AUXILIARY})\b)(?:(?:type|kind|sort|name)s? of )?(?:[\w-]+ ){{0,2}}?"
    rf"([a-z][\w-]*)(?= (?:{_AUXILIARY}|\w+ed)\b)"
)


def reference(question: str) -> str:
    """Return a phrase that points to the question's answer without describing it, such as "that city".

    It stands in for `noun_phrase` where no rule fits.
    """
    text = question.strip()
    text = text[:1].lower() + text[1:]
    if match := _ASKED_NOUN.match(text):
        return f"that {match[1]}"
    return next((phrase for pattern, phrase in _FALLBACKS if pattern.match(text)), "that thing")
