"""Chat templates. A template is a program that came with a model: it runs in a sandbox, and so many steps.

What it may call and read is what transformers allows. Each turn of a loop and each call costs one step, and
each eight characters or entries that it handles cost one more; so nothing depends on how quick a machine is.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from functools import wraps
from typing import Any, cast

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

MOST_STEPS = 300_000
"""The steps of one rendering. Templates in use take some ten for each turn of a chat, and as many again with
tools."""
_PER_STEP = 8
_MOST_NUMBER = 100_000
"""A greater argument is refused: it may be the width of a text, or how often it is repeated."""
_MOST_POWER = 64
_WIDE = re.compile(r"\d{6}|\*")
"""A width in a format string beyond that, or one that is an argument."""
_steps_left: ContextVar[list[int]] = ContextVar("askance_template_steps")


class ChatTemplate:
    """A template that is compiled.

    Args:
        source: in the language of Jinja.
        named: further values that it sees, such as ``bos_token``.

    Raises:
        TemplateError: it is none.
    """

    def __init__(self, source: str, named: Mapping[str, Any]) -> None:
        environment = _Bounded(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols], finalize=_spent
        )
        self._template = environment.from_string(_Counting().visit(environment.parse(source)))
        self._named = named

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The turns as the template lays them out, with what begins the model's own.

        Raises:
            TemplateError: it refuses them, breaks, or takes too many steps.
        """
        token = _steps_left.set([MOST_STEPS])
        try:
            return self._template.render(
                self._named, messages=messages, tools=None, documents=None, add_generation_prompt=True
            )
        except TemplateError:
            raise
        except Exception as error:  # a program that may hold anything breaks in any way
            raise TemplateError(f"{type(error).__name__}: {error}") from error
        finally:
            _steps_left.reset(token)


class _Bounded(ImmutableSandboxedEnvironment):
    """The sandbox of transformers, in which each step is counted."""

    intercepted_binops = frozenset(["*", "**", "+", "-", "%"])

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.filters["tojson"] = _to_json
        self.filters = {name: _counted(each) for name, each in self.filters.items()} | {"_turns": _turns}
        del self.globals["lipsum"]
        self.globals |= {"raise_exception": _refuse, "strftime_now": _now, "namespace": _PlainNamespace}

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """A call from within a template."""
        owner = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)  # the sandbox wraps `str.format`
        if isinstance(owner, str) and obj.__name__ in ("format", "format_map"):
            _check_format(owner)
        _check((owner, *args, *kwargs.values()))
        return _spent(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """An operator between two values."""
        if operator == "**" and isinstance(right, int) and right > _MOST_POWER:
            raise TemplateError("it makes a number without end")
        _check(() if operator in ("+", "-") else (left, right))
        if operator == "%" and isinstance(left, str):
            _check_format(left)
        return _spent(super().call_binop(context, operator, left, right))


class _Counting(NodeTransformer):
    """Makes filters, which count their steps, of what a template repeats and joins."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _filtered(node.iter, "_turns")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), "join")


class _Generation(Extension):
    """``{% generation %}`` marks what a model is trained to write; here it means nothing."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """What stands within."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _PlainNamespace(Namespace):
    """Values that a template may set, under names that reach nothing of Python."""

    def __init__(*args: Any, **values: Any) -> None:
        self, *given = args
        Namespace.__init__(self)
        for name, value in dict(*given, **values).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            raise TemplateError(f"a namespace can't hold the name {name!r}")
        Namespace.__setitem__(self, name, value)


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(cast(nodes.Expr, node), name, [], [], None, None, lineno=node.lineno)


def _spend(num_steps: int) -> None:
    left = _steps_left.get()
    left[0] -= num_steps
    if left[0] < 0:
        raise TemplateError(f"it takes more than {MOST_STEPS:,} steps")


def _size(value: Any) -> int:
    """The characters or entries of a value, and the characters of texts in a list."""
    inside = value if isinstance(value, list | tuple) else ()
    own = len(value) if isinstance(value, str | list | tuple | dict) else 0
    return own + sum(len(each) for each in inside if isinstance(each, str))


def _spent(value: Any) -> Any:
    """The value of a step, which costs more if it is long; a number is as long as its bits."""
    _spend(1 + (value.bit_length() if isinstance(value, int) else _size(value)) // _PER_STEP)
    return value


def _check(values: Iterable[Any]) -> None:
    """What goes into a step costs, too, and as much as the two greatest of it could make of each other; no
    number in it may be large.
    """
    sizes = [1, 1]
    for value in values:
        sizes.append(abs(value) if isinstance(value, int) else _size(value))
        if not isinstance(value, int):
            _spend(sizes[-1] // _PER_STEP)
        elif sizes[-1] > _MOST_NUMBER:
            raise TemplateError(f"it calls something with a number beyond {_MOST_NUMBER:,}")
    *_, less, most = sorted(sizes)
    _spend(less * most // _PER_STEP)


def _check_format(layout: str) -> None:
    if _WIDE.search(layout):
        raise TemplateError(f"it formats with {layout[:60]!r}, which may have any width")


def _counted(step: Callable[..., Any]) -> Callable[..., Any]:
    """A filter each use of which is a step."""

    @wraps(step)
    def counted(*args: Any, **kwargs: Any) -> Any:
        _check((*args, *kwargs.values()))
        if step.__name__ == "do_format":
            _check_format(str(args[0]))
        return _spent(step(*args, **kwargs))

    return counted


def _turns(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        _spend(1)
        yield item


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _now(layout: str) -> str:
    return datetime.now().strftime(layout)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    known = {name: options[name] for name in ("separators", "sort_keys") if name in options}
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **known)
