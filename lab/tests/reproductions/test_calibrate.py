"""The calibration of a method that judges a sentence by its mean."""

from askance.models.scripted import Reply
from tests.evaluation.choose.test_calibrate import FLARE, run


def test_a_sentence_is_judged_by_its_mean():
    def script(prompt, key):
        return Reply(" So the answer is Bonn.", sureness=float(key[1]))

    found = run("flare_token", {}, 0.5, script=script)
    assert 0.45 <= found.value < 0.55


def test_a_jump_over_the_number_wanted_is_told():
    def script(prompt, key):
        return Reply(" So the answer is Bonn.", sureness=0.5)

    found = run("flare_token", {}, 0.5, script=script, max_trials=20)
    assert 0.499 <= found.value <= 0.501
    assert found.remark.startswith("no value tried gave 0.5: it lies between 0.00 (threshold=0.5")
    assert run("flare", FLARE, 0.5).remark == ""
