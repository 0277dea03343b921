"""Equations of Office files (OMML) and raised and lowered text, as characters."""

from dataclasses import dataclass, field

from askance.retrieval.index.formats.packages import Attributes

_MAX_NESTED = 20
"""The depth from which parts of equations are written one after the other."""
_RAISED = str.maketrans("0123456789+-−=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ")
_LOWERED = str.maketrans("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")
_ORDINALS = ("st", "nd", "rd", "th", "er", "re", "e", "ème", "ième")
_PARTS = ("f", "num", "den", "rad", "deg", "e", "sup", "sub", "lim", "d", "nary", "m", "mr", "eqArr", "func")


def raised(text: str) -> str:
    """Return superscript text as characters, such as "⁵", or as "^(text)". Ordinals such as "1st" stay."""
    return _scripted(text, _RAISED, "^")


def lowered(text: str) -> str:
    """Return subscript text as characters, such as "₂", or as "_(text)"."""
    return _scripted(text, _LOWERED, "_")


def _scripted(text: str, characters: dict[int, int], mark: str) -> str:
    word = text.strip()
    if not any(map(str.isalnum, word)) or (mark == "^" and word.lower() in _ORDINALS):
        return text
    are_characters = all(ord(character) in characters for character in word)
    return text.translate(characters) if are_characters else text.replace(word, f"{mark}({word})")


@dataclass(slots=True)
class _Part:
    """A part of an equation whose end is to come.

    Attributes:
        start: The number of pieces of text before it.
        signs: The signs that the equation gives to it, by the names of their elements.
    """

    name: str
    start: int
    signs: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Equations:
    """The open parts of equations, while the XML of a paragraph is read."""

    _parts: list[_Part] = field(default_factory=list)
    _num_equations: int = 0
    _num_deeper: int = 0

    @property
    def are_open(self) -> bool:
        """True inside an equation."""
        return self._num_equations > 0

    def start(self, name: str, attributes: Attributes, pieces: list[str]) -> None:
        """Read the start of an element. `pieces` has the text of the paragraph so far."""
        if name == "oMath":
            self._num_equations += 1
        elif not self._num_equations:
            return
        elif name in _PARTS and (self._num_deeper or len(self._parts) == _MAX_NESTED):
            self._num_deeper += 1
        elif name in _PARTS:
            self._parts.append(_Part(name, len(pieces)))
        elif self._parts and name in ("begChr", "endChr", "sepChr", "chr"):
            self._parts[-1].signs[name] = attributes.get("val", "")

    def end(self, name: str, pieces: list[str]) -> None:
        """Read the end of an element, and replace the pieces of a part of an equation by its text."""
        if name == "oMath":
            self._num_equations -= 1
        elif name == "naryPr" and self._parts and self._parts[-1].name == "nary":
            pieces.append(self._parts[-1].signs.get("chr", "∫"))
        elif self._num_equations and name in _PARTS and self._num_deeper:
            self._num_deeper -= 1
        elif self._num_equations and name in _PARTS and self._parts:
            part = self._parts.pop()
            parent = self._parts[-1] if self._parts else _Part("", 0)
            text = "".join(pieces[part.start :])
            pieces[part.start :] = [_written(part, parent, text)]


def _written(part: _Part, parent: _Part, text: str) -> str:
    signs = part.signs
    match part.name, parent.name:
        case "num", _:
            return f"({text})"
        case "den", _:
            return f"/({text})"
        case ("sup", _) | ("deg", _):
            return raised(text)
        case ("sub", _) | ("lim", _):
            return lowered(text)
        case "e", "rad":
            return f"√({text})"
        case "e", "func":
            return f"({text})"
        case "e", ("d" | "mr" | "eqArr"):
            return text + {"d": parent.signs.get("sepChr", "|"), "mr": ", ", "eqArr": "; "}[parent.name]
        case "d", _:
            inside = text.removesuffix(signs.get("sepChr", "|"))
            return signs.get("begChr", "(") + inside + signs.get("endChr", ")")
        case "mr", _:
            return text.removesuffix(", ") + "; "
        case (("m" | "eqArr"), _):
            return f"[{text.removesuffix('; ')}]"
    return text
