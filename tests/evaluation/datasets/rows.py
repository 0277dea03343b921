"""Examples of datasets as short rows, with no more than the fields that are not empty."""

import json

from askance.configuration.evaluation import read_dataset


def row(example):
    """Return an example as JSON has it; a paragraph is its title, its text, and each piece of evidence."""
    question, why = example.question, example.supporting_facts
    for paragraph in why.paragraphs:
        pieces = tuple(paragraph.text[start:end] for start, end in paragraph.evidence)
        assert paragraph.evidence_texts == pieces, "evidence begins and ends with a character, not a blank"
    fields = {
        "id": question.id,
        "question": question.text,
        "task": "" if question.task == "open" else question.task,
        "options": question.options,
        "genre": question.genre,
        "golds": example.golds,
        "titles": example.supporting_titles,
        "kind": example.kind,
        "hops": example.hops,
        "groups": example.answer_groups,
        "paragraphs": [(each.title, each.text, *each.evidence_texts) for each in why.paragraphs],
        "triples": [(each.subject, each.relation, each.object) for each in why.triples],
        "steps": [(each.question, each.answer) for each in why.steps],
        "facts": why.facts,
        "passages": [(each.title, each.text) for each in example.passages],
    }
    return json.loads(json.dumps({name: value for name, value in fields.items() if value}))


def write(path, content):
    """Write bytes, a text, the JSON Lines of a tuple, or the JSON of anything else."""
    if isinstance(content, tuple):
        content = "".join(json.dumps(each) + "\n" for each in content)
    elif not isinstance(content, str | bytes):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def read_as(spec, content, folder):
    """Read content as a dataset; "name:file.json?option" names its file in the folder."""
    name, _, rest = spec.partition(":")
    write(folder / rest.partition("?")[0], content)
    return read_dataset(f"{name}:{folder}/{rest}")
