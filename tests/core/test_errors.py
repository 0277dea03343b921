import inspect

from askance.core import errors
from askance.core.errors import AskanceError, InputError, PromptTooLong, UnknownName


def test_the_docstring_prints_the_whole_tree():
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, AskanceError)]
    assert len(classes) > 10
    for cls in classes:
        assert cls.__name__ in errors.__doc__


def test_exit_codes():
    assert AskanceError.exit_code == 1
    assert InputError.exit_code == 2
    assert errors.ModelFailure.exit_code == 1


def test_unknown_name_offers_the_nearest_and_lists_all():
    message = str(UnknownName("method", "flair", ["flare", "single"]))
    assert message == "unknown method 'flair': did you mean 'flare'? Known: flare, single."
    assert "none with a similar name" in str(UnknownName("method", "zzz", ["flare"]))


def test_prompt_too_long_gives_the_numbers():
    message = str(PromptTooLong("tiny", prompt_tokens=90, max_tokens=20, context_tokens=100))
    assert "90 tokens" in message
    assert "20 more" in message
    assert "window of 100" in message
