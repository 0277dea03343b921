"""Equations of Office files (OMML) and raised and lowered text, as characters."""

from dataclasses import dataclass, field

from askance.retrieval.index.formats.packages import Attributes

_RAISED = str.maketrans("0123456789+-−=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ⁿ")
_LOWERED = str.maketrans("0123456789+-−=()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎")
_ORDINALS = ("st", "nd", "rd", "th", "er", "re", "e", "ème", "ième")
_PARTS = ("num", "den", "rad", "deg", "e", "sup", "sub", "d", "nary", "mr", "eqArr")


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
    """An open part of an equation.

    Attributes:
        start: The number of the piece of text for its opening sign.
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

    @property
    def are_open(self) -> bool:
        """True inside an equation."""
        return self._num_equations > 0

    def start(self, name: str, attributes: Attributes, pieces: list[str]) -> None:
        """Read the start of an element. `pieces` has the text of the paragraph so far."""
        if name == "oMath":
            self._num_equations += 1
        elif self.are_open and name in _PARTS:
            self._parts.append(_Part(name, len(pieces)))
            pieces.append("")
        elif self._parts:
            self._parts[-1].signs[name] = attributes.get("val", "")

    def end(self, name: str, pieces: list[str]) -> None:
        """Read the end of an element, and write the signs around a part of an equation."""
        if name == "oMath":
            self._num_equations -= 1
        elif self._parts and name == "naryPr":
            pieces.append(self._parts[-1].signs.get("chr", "∫"))
        elif self._parts and name == self._parts[-1].name:
            part = self._parts.pop()
            parent = self._parts[-1] if self._parts else _Part("", 0)
            opening, closing = _signs(part, parent, pieces)
            pieces[part.start] = opening
            pieces.append(closing)


def _signs(part: _Part, parent: _Part, pieces: list[str]) -> tuple[str, str]:
    """Return the opening and the closing sign of a part. A script of one piece is written as characters."""
    match part.name, parent.name:
        case "num", _:
            return "(", ")"
        case "den", _:
            return "/(", ")"
        case "e", "rad":
            return "√(", ")"
        case "e", "d":
            return "", parent.signs.get("sepChr", "|")
        case "e", ("mr" | "eqArr"):
            return "", " "
        case "d", _:
            pieces[-1] = ""  # the separator after the last one
            return part.signs.get("begChr", "("), part.signs.get("endChr", ")")
        case (("sup" | "sub" | "deg"), _):
            scripted, mark = (lowered, "_") if part.name == "sub" else (raised, "^")
            if len(pieces) > part.start + 2:
                return f"{mark}(", ")"
            pieces[part.start + 1 :] = map(scripted, pieces[part.start + 1 :])
    return "", ""
