"""What a lock costs, beside redis-py's: cycles per second of a lock that nobody else wants, and 1,000 tasks that want 50
locks again and again, each for 5 ms. It takes a minute, and prints a table.

    RLOCK_URL=redis://127.0.0.1:6379 python bench.py
"""

import asyncio
import gc
import os
import time

import redis.asyncio as redis_aio
from redis import Redis

import rlock_client
from rlock_client import aio

URL = os.environ.get("RLOCK_URL", "redis://127.0.0.1:6379")
ALONE_SECONDS, TOGETHER_SECONDS = 5, 12
TASKS, LOCKS, HELD_SECONDS = 1_000, 50, 0.005


async def cycles(lock):
    """How often it can be taken and given back."""
    for _ in range(200):
        async with lock:
            pass
    count, begun = 0, time.monotonic()
    while time.monotonic() < begun + ALONE_SECONDS:
        async with lock:
            count += 1
    return count / (time.monotonic() - begun)


def blocking_cycles(lock):
    for _ in range(200):
        with lock:
            pass
    count, begun = 0, time.monotonic()
    while time.monotonic() < begun + ALONE_SECONDS:
        with lock:
            count += 1
    return count / (time.monotonic() - begun)


async def together(lock_of, counted):
    """Grants per second, CPU for each, the longest wait, connections: of those who begin to wait while it runs."""
    gc.collect()
    waits, connections, end = [], 0, time.monotonic() + TOGETHER_SECONDS

    async def work(number):
        while (begun := time.monotonic()) < end:
            async with lock_of(f"bench:{number % LOCKS}"):
                waits.append(time.monotonic() - begun)
                await asyncio.sleep(HELD_SECONDS)

    cpu, begun = time.process_time(), time.monotonic()
    tasks = [asyncio.create_task(work(number)) for number in range(TASKS)]
    while time.monotonic() < end:
        await asyncio.sleep(0.5)
        connections = max(connections, counted())
    await asyncio.gather(*tasks)
    seconds, cpu = time.monotonic() - begun, time.process_time() - cpu
    waits.sort()
    longest, middle = waits[-1], waits[len(waits) // 2]
    return [
        f"{len(waits) / seconds:,.0f}",
        f"{cpu / len(waits) * 1e6:,.0f} µs",
        f"{middle:.2f} s",
        f"{longest:.2f} s",
        f"{connections}",
    ]


async def main():
    admin = Redis.from_url(URL, decode_responses=True)
    before = len(admin.client_list())

    def counted():
        return len(admin.client_list()) - before

    def row(name, alone, rest):
        print(f"| {name} | {alone:,.0f} | " + " | ".join(rest) + " |", flush=True)

    print(
        f"| | cycles/s alone | {TASKS:,} tasks on {LOCKS} locks: grants/s | CPU each | median wait | longest | connections |"
    )
    print("|---|---|---|---|---|---|---|")
    async with aio.Locks(URL) as locks:
        row("rlock_client.aio", await cycles(locks.lock("bench")), await together(locks.lock, counted))
    # By default it refuses the 101st task.
    async with redis_aio.Redis.from_url(URL, max_connections=TASKS) as client:
        row("redis.asyncio Lock", await cycles(client.lock("bench")), await together(client.lock, counted))
    with rlock_client.Locks(URL) as locks, Redis.from_url(URL) as client:
        row("rlock_client", blocking_cycles(locks.lock("bench")), [""] * 5)
        row("redis Lock", blocking_cycles(client.lock("bench")), [""] * 5)


asyncio.run(main())
