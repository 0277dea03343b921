"""Two examples of every command, which its help ends with."""

import typer

EXAMPLES = {
    "askance": (
        "askance index @sample --out sample-index",
        'askance ask "Where was Ingmar Bergman born?" --index sample-index',
    ),
    "ask": (
        'askance ask "Who wrote The Third Man?" --index sample-index',
        'askance ask "Who wrote it?" --index my-index --method single --trace why.jsonl',
    ),
    "methods": ("askance methods", "askance methods dragin"),
    "prompts": ("askance prompts", "askance prompts hotpotqa"),
    "index": (
        "askance index @sample --out sample-index",
        "askance index notes/ papers.pdf --out my-index --encoder bundled",
    ),
    "search": (
        'askance search "suspension bridges" --index sample-index',
        'askance search "bridges" --index my-index -k 10 --retriever hybrid --json',
    ),
    "trace": ("askance trace why.jsonl", "askance trace runs/dragin --question bridge-01"),
    "eval": (
        "askance eval --dataset sample --index sample-index --limit 9 --out runs/dragin",
        "askance eval --dataset sample --index @gold --method single --out runs/single",
    ),
    "grid": ("askance grid grid.toml --out runs", "askance grid grid.toml --out runs --in-flight 4"),
    "models": (
        "askance models",
        "askance models --check openai:qwen2.5:7b@http://localhost:11434/v1",
    ),
    "calibrate": (
        "askance calibrate --dataset sample --index sample-index --searches 2",
        "askance calibrate --dataset jsonl:mine.jsonl --index my-index --out mine.toml",
    ),
    "presets": (
        "askance presets",
        'askance ask "Who wrote it?" --index my-index --preset bundled',
    ),
    "config": ("askance config", "askance config --method single --set passages=5 --json"),
    "datasets": ("askance datasets", "askance datasets jsonl:mine.jsonl"),
    "judge": (
        "askance judge runs/dragin --citations hf:google/t5_xxl_true_nli_mixture",
        "askance judge runs/dragin --facts bundled --index sample-index",
    ),
    "compare": (
        "askance compare runs/single runs/dragin",
        "askance compare runs/single runs/dragin --questions 5 --markdown",
    ),
    "report": (
        "askance report runs/single runs/dragin --out report.html",
        "askance report runs/single runs/dragin --price prompt=0.15 --out report.html",
    ),
    "train": (
        "askance train reader --dataset jsonl:mine.jsonl --out my-reader --dry-run",
        "askance train reader --help",
    ),
    "reader": (
        "askance train reader --dataset jsonl:mine.jsonl --out my-reader",
        "askance train reader --dataset jsonl:mine.jsonl --out my-reader --set epochs=2",
    ),
    "export": ("askance export alce runs/asqa --out alce.json", "askance export alce --help"),
    "alce": (
        "askance export alce runs/asqa --out alce.json",
        "askance export alce runs/asqa --dataset asqa:asqa.json --out alce.json",
    ),
    "factscore": (
        "askance export factscore runs/biographies --out factscore.jsonl",
        "askance export factscore runs/other --out other.jsonl",
    ),
}
"""By the name of the command, none longer than a help text of 80 columns is wide."""


def add_examples(app: typer.Typer) -> None:
    """Give every command and group below `app`, and itself, its examples."""
    app.info.epilog = _told("askance")
    for group in app.registered_groups:
        if group.typer_instance is not None and group.name:
            group.typer_instance.info.epilog = group.epilog = _told(group.name)
            _add_to_commands(group.typer_instance)
    _add_to_commands(app)


def _add_to_commands(app: typer.Typer) -> None:
    for command in app.registered_commands:
        if command.callback is not None:
            command.epilog = _told(command.name or command.callback.__name__)


def _told(name: str) -> str:
    return "\n".join(("Examples:", *EXAMPLES[name]))
