"""Values and bytes from outside that resemble valid ones: what a faulty or hostile program would send."""

import copy

from hypothesis import strategies as st

DEEP = b"[" * 2000 + b"]" * 2000
_TEXTS = [
    "",
    " ",
    "\ud800",
    "\0",
    "\x1b[31m",
    "\u202e",
    "NaN",
    "[1]",
    "a" * 3000,
    "é😀\u0301",
    "bytes:\\xff\\x1",
]
_NUMBERS = [
    0,
    -1,
    2**31,
    2**63,
    10**400,
    0.5,
    -0.0,
    -1e-320,
    1e308,
    float("nan"),
    float("inf"),
    -float("inf"),
]
VALUES = st.one_of(
    st.sampled_from([None, True, False, *_TEXTS, *_NUMBERS, [], {}, [None], {"error": "x"}, [[]], {"": {}}]),
    st.integers(-3, 300),
    st.floats(-20, 1),
    st.text(max_size=8),
)
NASTY = [
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b'"', b"'", b"{", b"}", b"[", b"]", b",", b":", b"="),
    *(b"NaN", b"1e999", b"9" * 5000, b"\\ud800", b"null", b"true", b"{}", b"[]", DEEP, b"\xed\xa0\x80"),
    *(b"\x1b[31m", b"a" * 3000, b"0", b"-1.5", b"\t", b"|", b"\\", b"(", b")", b"`", b"\xe2\x80\xa8"),
]


@st.composite
def mutants(draw, valid):
    """Valid bytes with a few pieces removed, repeated, moved or replaced."""
    raw = valid
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(raw)))
        end = min(len(raw), start + draw(st.sampled_from((0, 1, 3, 10, 60))))
        piece = draw(st.one_of(st.sampled_from(NASTY), st.just(b""), st.binary(max_size=3)))
        again = raw[start:end] * draw(st.sampled_from((0, 0, 1, 2, 20)))
        raw = raw[:start] + again + piece + raw[end:]
    return raw


@st.composite
def altered(draw, valid, values=VALUES):
    """A valid value of JSON in which a few parts are replaced, removed, repeated, wrapped or moved."""
    root = [copy.deepcopy(valid)]
    for _ in range(draw(st.integers(0, 3))):
        places = [*_places(root)]
        parent, key = draw(st.sampled_from(places))
        part = parent[key]
        match draw(st.sampled_from(("replace", "replace", "remove", "repeat", "wrap", "move"))):
            case "replace":
                alike = (
                    _NUMBERS if isinstance(part, int | float) else _TEXTS if isinstance(part, str) else [{}]
                )
                parent[key] = copy.deepcopy(draw(st.one_of(st.sampled_from(alike), values)))
            case "remove" if parent is not root:
                del parent[key]
            case "repeat" if isinstance(parent, list) and parent is not root:
                parent[key:key] = [copy.deepcopy(part)] * draw(st.sampled_from((1, 2, 30)))
            case "wrap":
                parent[key] = draw(st.sampled_from(([part], {"text": part}, [part, part])))
            case "move":
                other, place = draw(st.sampled_from(places))
                other[place] = copy.deepcopy(part)
    return root[0]


def _places(parent):
    """Every place in a value: the list or object that it is in, with its index or key."""
    for key in [*range(len(parent))] if isinstance(parent, list) else [*parent]:
        yield parent, key
        if isinstance(parent[key], list | dict):
            yield from _places(parent[key])
