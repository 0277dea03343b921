"""Chat templates: programs that come with a model and run in a sandbox with a limited number of steps.

A template may use the same functions and variables as in transformers. Each loop iteration and each call
costs one step, plus one for every eight characters or entries that it handles. Since steps are limited
instead of time, the speed of the machine does not matter.
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

from askance.core.notes import bound

MAX_STEPS = 300_000
"""The greatest number of steps in one rendering. Real templates take about ten steps for each turn of a chat,
and twice as many with tools."""
_ITEMS_PER_STEP = 8
_MAX_NUMBER = 100_000
"""The greatest number that a call may take as an argument, since it may set the length of a string."""
_MAX_EXPONENT = 64
_WIDE = re.compile(r"\d{6}|\*")
"""A width of six or more digits in a format string, or a width that is an argument."""
_steps_left: ContextVar[list[int]] = ContextVar("askance_template_steps")


class ChatTemplate:
    """A compiled chat template.

    Args:
        variables: Additional variables for the template, such as ``bos_token`` and ``enable_thinking``.

    Raises:
        TemplateError: The source is not a valid template.
    """

    def __init__(self, source: str, variables: Mapping[str, Any]) -> None:
        environment = _StepLimitedSandbox(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols], finalize=_spent
        )
        self._template = environment.from_string(_Counting().visit(environment.parse(source)))
        self._variables = variables

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return the prompt for the turns, up to the start of the model's own turn.

        Raises:
            TemplateError: The template refuses the turns, fails, or takes too many steps.
        """
        known = {**self._variables, "messages": messages, "add_generation_prompt": True}
        try:
            with bound(_steps_left, [MAX_STEPS]):
                return self._template.render(known, tools=None, documents=None)
        except TemplateError:
            raise
        except Exception as error:  # a template is an arbitrary program and may fail in any way
            raise TemplateError(f"{type(error).__name__}: {error}") from error


class _StepLimitedSandbox(ImmutableSandboxedEnvironment):
    """A sandbox like that of transformers, which also counts steps."""

    intercepted_binops = frozenset(["*", "**", "+", "-", "%"])

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.filters["tojson"] = _to_json
        self.filters = {name: _counted(call) for name, call in self.filters.items()} | {"_turns": _turns}
        del self.globals["lipsum"]
        self.globals |= {"raise_exception": _refuse, "strftime_now": _now, "namespace": _PlainNamespace}

    def call(self, context: Any, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call `obj` on behalf of a template."""
        owner = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)  # the sandbox wraps `str.format`
        if isinstance(owner, str) and obj.__name__ in ("format", "format_map"):
            _check_format(owner)
        _check((owner, *args, *kwargs.values()))
        return _spent(super().call(context, obj, *args, **kwargs))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Apply an operator of a template to two values."""
        if operator == "**" and isinstance(right, int) and right > _MAX_EXPONENT:
            raise TemplateError("it makes a number without end")
        _check(() if operator in ("+", "-") else (left, right))
        if operator == "%" and isinstance(left, str):
            _check_format(left)
        return _spent(super().call_binop(context, operator, left, right))


class _Counting(NodeTransformer):
    """A syntax tree transformer that routes loops and concatenations through filters that count steps."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _filtered(node.iter, "_turns")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), "join")


class _Generation(Extension):
    """The tag ``{% generation %}``, which marks text to train a model on. The tag has no effect here."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the statements inside the tag."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _PlainNamespace(Namespace):
    """A namespace for a template's variables, whose names can't reach Python's own attributes."""

    def __init__(*args: Any, **values: Any) -> None:
        self, *entries = args
        Namespace.__init__(self)
        for name, value in dict(*entries, **values).items():
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
        raise TemplateError(f"it takes more than {MAX_STEPS:,} steps")


def _size(value: Any) -> int:
    """Return the number of characters or entries of a value. For a list, add the lengths of its strings."""
    items = value if isinstance(value, list | tuple) else ()
    own = len(value) if isinstance(value, str | list | tuple | dict) else 0
    return own + sum(len(item) for item in items if isinstance(item, str))


def _spent(value: Any) -> Any:
    """Spend the cost of a step that gave `value`, and return `value`.

    The cost depends on the size of the value. The size of an integer is its number of bits.
    """
    _spend(1 + (value.bit_length() if isinstance(value, int) else _size(value)) // _ITEMS_PER_STEP)
    return value


def _check(values: Iterable[Any]) -> None:
    """Spend the cost of a step's arguments.

    The result of the step may be as large as the product of its two largest arguments, for example if a
    string is repeated. So this product is added to the cost.

    Raises:
        TemplateError: An argument is a number that is too large, or no steps are left.
    """
    sizes = [1, 1]
    for value in values:
        sizes.append(abs(value) if isinstance(value, int) else _size(value))
        if not isinstance(value, int):
            _spend(sizes[-1] // _ITEMS_PER_STEP)
        elif sizes[-1] > _MAX_NUMBER:
            raise TemplateError(f"it calls something with a number beyond {_MAX_NUMBER:,}")
    *_, second, largest = sorted(sizes)
    _spend(second * largest // _ITEMS_PER_STEP)


def _check_format(layout: str) -> None:
    if _WIDE.search(layout):
        raise TemplateError(f"it formats with {layout[:60]!r}, which may have any width")


def _counted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that calls `function` and spends the cost of each call."""

    @wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        _check((*args, *kwargs.values()))
        if function.__name__ == "do_format":
            _check_format(str(args[0]))
        return _spent(function(*args, **kwargs))

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
