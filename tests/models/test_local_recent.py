"""What is remembered of what was worked out."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from askance.models.local.prompt import Recent


def test_the_least_recently_used_goes_first():
    worked, recent = [], Recent(2)
    for key in "aababcbcab":
        assert recent.get(key, lambda key=key: worked.append(key) or key.upper()) == key.upper()
    assert "".join(worked) == "abcab"


def test_an_error_is_raised_again():
    recent = Recent(2)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            recent.get("a", lambda: 1 // 0)
    assert recent.get("a", lambda: 1) == 1


def test_threads_do_not_harm_each_other():
    recent = Recent(8)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda number: recent.get(number % 20, lambda: number % 20), range(4000)))
    assert found == [number % 20 for number in range(4000)]
