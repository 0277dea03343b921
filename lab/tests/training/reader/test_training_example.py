"""Examples as ids."""

import asyncio

from askance.core.types import Raw, Span
from askance.models.hf.model import encoding_of
from askance_lab.training.reader.training_example import EncodedExample, TrainingExample, encode


class Letters:
    """One id a letter."""

    end_id = 0

    def encode(self, prompt):
        return self.text_ids("".join(span.text for span in prompt.parts))

    def text_ids(self, text):
        return tuple(map(ord, text))


def example(prompt, target, id="d/1", task="reading"):
    return TrainingExample(task, id, Raw((Span(prompt),)), target)


def test_prompt_then_target_then_end():
    made, left_out = encode([example("ab", " c")], Letters(), 10)
    assert made == (EncodedExample("reading", "d/1", (97, 98, 32, 99, 0), 2),)
    assert made[0].num_target_tokens == 3
    assert left_out == {}


def test_the_answer_that_a_target_ends_in():
    worked = TrainingExample("reading", "d/1", Raw((Span("ab"),)), " c is d.", answer=" d.")
    (made,), _ = encode([worked], Letters(), 100)
    assert (made.num_target_tokens, made.num_answer_tokens) == (9, 4)
    (made,), _ = encode([example("ab", " c is d.")], Letters(), 100)
    assert made.num_answer_tokens == 0


def test_what_does_not_fit_is_left_out_whole_and_counted_by_task():
    examples = [example("abc", "d"), example("abcd", "e"), example("a", "bcde", task="support")]
    made, left_out = encode(examples, Letters(), 5)
    assert [each.ids for each in made] == [(97, 98, 99, 100, 0)]
    assert left_out == {"reading": 1, "support": 1}


def test_nothing_fits():
    assert encode([example("abc", "d"), example("abcd", "e")], Letters(), 3) == ((), {"reading": 2})


def test_nothing_is_nothing():
    assert encode([], Letters(), 3) == ((), {})


def test_a_model_sees_what_it_will_see_when_it_answers(llama_folder):
    from askance.models.hf.load import as_model, load_parts

    module, tokenizer = load_parts(str(llama_folder))
    (made,), _ = encode([example("The cat</s>", " sat</s> on")], encoding_of(tokenizer, module, "llama"), 100)
    model = as_model(module, tokenizer, name="llama")
    prompt, target = made.ids[: made.num_prompt_tokens], made.ids[made.num_prompt_tokens :]
    assert len(prompt) == asyncio.run(model.count(Raw((Span("The cat</s>"),))))
    assert target == (*model.tokenize(" sat</s> on"), tokenizer.eos_token_id)
    assert tokenizer.eos_token_id not in target[:-1]
