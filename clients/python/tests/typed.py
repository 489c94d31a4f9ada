"""A program that a type checker must accept, except for the lines that say otherwise."""

from typing import assert_type

from redis import Redis

from rlock_client import Busy, Held, Lock, LockError, Locks, Lost, aio
from rlock_client.redis_lock import Lock as DropIn


def synchronous(redis: Redis) -> None:
    with Locks("redis://127.0.0.1:6379", lease=10, name="typed") as locks:
        assert_type(locks, Locks)
        assert_type(Locks.cluster(["redis://a"], lease=1.5), Locks)
        assert_type(Locks.sentinels(["redis://a"], "master", password="x"), Locks)
        assert_type(Locks.of(redis), Locks)
        assert_type(locks.lock("a"), Lock)
        with locks.lock("a", wait=10, fenced=True) as held:
            assert_type(held, Held)
            assert_type(held.token, int | None)
            assert_type(held.remaining, float)
            held.on_lost(lambda: print("lost"))
        assert_type(locks.permit("a", 3).try_acquire(), Held | None)
        assert_type(locks.all(["a", b"b"], replicas=(1, 0.5)).acquire(), Held)
        assert_type(held.detach(within=5), str)
        assert_type(locks.once("a", lambda held: b"", keep=60), bytes)
        assert_type(locks.once("a", lambda held: {"a": held.remaining}, keep=60, json=True), dict[str, float])
        locks.once("a", lambda held: b"")  # type: ignore[call-arg]

        @locks.once_for(lambda day, of: f"{day}:{of}", keep=60, json=True, wait=5)
        def report(day: int, of: str = "all") -> list[int]:
            return [day]

        assert_type(report(1, of="b"), list[int])
        report("1")  # type: ignore[arg-type]
        locks.forget("a")
        with locks.adopt("text") as held:
            assert_type(held, Held)
        locks.lead("a", lambda held: print(held.token), fenced=True)
        locks.lead("a", print, wait=3)  # type: ignore[call-arg]
        locks.lock("a", waits=3)  # type: ignore[call-arg]
        locks.lock(3)  # type: ignore[arg-type]
        try:
            held.check()
        except (Lost, Busy) as error:
            assert_type(error.code, str | None)
    assert_type(redis.lock("a", lock_class=DropIn).local.token is None, bool)


async def asynchronous() -> None:
    async with aio.Locks("redis://127.0.0.1:6379") as locks:
        assert_type(await locks.connect(), aio.Locks)
        async with locks.read("a", wait=1) as held:
            assert_type(held, aio.Held)
        assert_type(await locks.lock("a").try_acquire(), aio.Held | None)
        assert_type(await held.detach(), str)

        async def work(held: aio.Held) -> bytes:
            return b""

        assert_type(await locks.once(b"a", work, keep=60), bytes)

        @locks.once_for("a", keep=60)
        async def report(day: int) -> bytes:
            return b""

        assert_type(await report(1), bytes)
        await report("1")  # type: ignore[arg-type]
        await locks.forget("a")
        async with await locks.adopt("text") as held:
            assert_type(held, aio.Held)
        await held.release()

        async def lead(held: aio.Held) -> None:
            assert_type(held.token, int | None)

        await locks.lead("a", lead, lease=5)


def is_error(error: BaseException) -> bool:
    return isinstance(error, LockError)
