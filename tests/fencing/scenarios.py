"""What each storage has to do. A test file imports these, and has a fixture `place`, where nothing is stored yet."""

from concurrent.futures import ThreadPoolExecutor

from conftest import LOCK, Holder


def test_a_late_write_is_refused(locks, storage, place):
    with Holder(storage, place) as first:
        assert first.write("first, 1")
        assert first.write("first, 2"), "its token is the highest, not higher"
        first.pause()
        with locks.lock(LOCK, wait=20, fenced=True) as second:
            assert second.token > first.token
            assert storage.write(place, second.token, "second, 1")
            first.resume()
            assert not first.write("first, late")
            assert storage.read(place) == "second, 1"
            assert storage.write(place, second.token, "second, 2")
        assert not first.write("first, later")
        assert storage.read(place) == "second, 2"


def test_the_first_write_of_a_holder_may_be_late(locks, storage, place):
    with Holder(storage, place) as first:
        first.pause()
        with locks.lock(LOCK, wait=20, fenced=True) as second:
            assert storage.write(place, second.token, "second")
            first.resume()
            assert not first.write("first, late")
    assert storage.read(place) == "second"


def test_of_writes_at_the_same_time_the_highest_token_stays(storage, place):
    highest = 2**53 - 1
    # The highest comes in the middle.
    tokens = [highest - number * 7 % 41 for number in range(21, 62)]
    with ThreadPoolExecutor(4) as writers:
        accepted = dict(zip(tokens, writers.map(lambda token: storage.write(place, token, str(token)), tokens)))
    assert accepted[highest]
    assert storage.read(place) == str(highest)
    assert not storage.write(place, highest - 1, "late")
    assert storage.read(place) == str(highest)
