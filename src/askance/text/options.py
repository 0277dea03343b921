"""Finding the option of a multiple-choice question that a text names.

Options are either plain ("Paris", "true") or all lettered ("A: iron", "B: gold"). A text may name a lettered
option in full, by the option's text alone or by its letter alone.
"""

import re
from collections.abc import Mapping, Sequence

_LETTERED = re.compile(r"([A-Z]): (.+)", re.DOTALL)
_VERDICTS = {"true": "supports", "false": "refutes"}


def named_option(text: str, options: Sequence[str]) -> str:
    """Return the option that `text` names first, as `options` spells it, or an empty string.

    The text of an option matches whole words, ignoring case. Of two matches at the same offset, the longer
    one wins. A letter must stand alone. At the start of the text, it may be in upper or lower case ("b",
    "(B)", "B." or "B:"); elsewhere it must be a capital. "A" before another word counts as the article.
    If the options are true and false, FEVER's labels SUPPORTS and REFUTES also name them.

    >>> named_option("(B) is best", ["A: iron", "B: gold"]), named_option("A dog", ["A: cat", "B: dog"])
    ('B: gold', 'B: dog')
    """
    letters = lettered(options)
    has_verdicts = {option.lower() for option in options} == set(_VERDICTS)
    matches = []
    for option in options:
        names = [option, _VERDICTS[option.lower()]] if has_verdicts else [option]
        patterns = [_whole_words(name) for name in names]
        if letters:
            letter, option_text = letters[option]
            no_article = r"(?!\s+\w)" if letter == "A" else ""
            alone = rf"\A\s*\(?{letter}(?:[).:](?=\s|\Z)|\s*\Z)"
            patterns += [_whole_words(option_text), re.compile(alone, re.IGNORECASE)]
            patterns.append(re.compile(rf"(?<![\w.'’-]){letter}(?![\w'’-]|\.\w){no_article}"))
        found = (pattern.search(text) for pattern in patterns)
        matches += [(match.start(), -len(match.group()), option) for match in found if match]
    return min(matches, default=(0, 0, ""))[2]


def lettered(options: Sequence[str]) -> Mapping[str, tuple[str, str]]:
    """Return the letter and the text of each option, by option.

    The result is empty unless all options have letters that differ from each other.

    >>> lettered(["A: iron", "B: gold"])
    {'A: iron': ('A', 'iron'), 'B: gold': ('B', 'gold')}
    """
    split = {option: match.groups() for option in options if (match := _LETTERED.fullmatch(option))}
    is_lettered = len(split) == len(options) == len({letter for letter, _ in split.values()})
    return {option: (letter, text) for option, (letter, text) in split.items()} if is_lettered else {}


def _whole_words(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", re.IGNORECASE)
