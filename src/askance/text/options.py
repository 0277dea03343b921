"""Which of a question's options a text names.

Options are plain ("Paris", "true"), or all of them lettered: "A: iron", "B: gold". A lettered one may be
named by all of it, by its text, or by its letter.
"""

import re
from collections.abc import Mapping, Sequence

_LETTERED = re.compile(r"([A-Z]): (.+)", re.DOTALL)
_VERDICTS = {"true": "supports", "false": "refutes"}


def named_option(text: str, options: Sequence[str]) -> str:
    """The option that `text` names first, as it is written in `options`; empty if it names none.

    Texts of options count as whole words in any letter case, the longer of two that begin at the same place.
    A letter has to stand alone: at the beginning as in "b", "(B)", "B.", "B:", and elsewhere as a capital.
    "A" before another word is the article. Where true and false are the options, SUPPORTS and REFUTES, the
    words of FEVER, are other names of them.

    >>> named_option("(B) is best", ["A: iron", "B: gold"]), named_option("A dog", ["A: cat", "B: dog"])
    ('B: gold', 'B: dog')
    """
    letters = lettered(options)
    has_verdicts = {option.lower() for option in options} == set(_VERDICTS)
    found = []
    for option in options:
        names = [option, _VERDICTS[option.lower()]] if has_verdicts else [option]
        patterns = [_whole_words(name) for name in names]
        if letters:
            letter, told = letters[option]
            no_article = r"(?!\s+\w)" if letter == "A" else ""
            alone = rf"\A\s*\(?{letter}(?:[).:](?=\s|\Z)|\s*\Z)"
            patterns += [_whole_words(told), re.compile(alone, re.IGNORECASE)]
            patterns.append(re.compile(rf"(?<![\w.'’-]){letter}(?![\w'’-]|\.\w){no_article}"))
        places = (pattern.search(text) for pattern in patterns)
        found += [(place.start(), -len(place.group()), option) for place in places if place]
    return min(found, default=(0, 0, ""))[2]


def lettered(options: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """Letter and text of each option; nothing unless all have a letter, each another one.

    >>> lettered(["A: iron", "B: gold"])
    {'A: iron': ('A', 'iron'), 'B: gold': ('B', 'gold')}
    """
    parted = {option: found.groups() for option in options if (found := _LETTERED.fullmatch(option))}
    is_lettered = len(parted) == len(options) == len({letter for letter, _ in parted.values()})
    return {option: (letter, text) for option, (letter, text) in parted.items()} if is_lettered else {}


def _whole_words(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
