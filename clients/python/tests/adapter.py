"""Python's client, driven line by line: clients/conformance/README.md says how. With `--sync` it is the synchronous
client, in threads, whose work looks itself whether its lock is lost; such a wait cannot be given up."""

import asyncio
import ctypes
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import rlock_client
from rlock_client import LockError, Lost, aio, errors

IS_SYNC = "--sync" in sys.argv
THREADS = 500
WORDS = {kind: word for word, kind in errors._BY_WORD.items()}


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def seconds(asked, field):
    return None if asked.get(field) is None else asked[field] / 1_000


def reason(error):
    return {"reason": error.reason} if isinstance(error, Lost) and error.reason else {}


class Mistake(Exception):
    """Of the suite's own."""


class Adapter:
    def __init__(self):
        self.locks, self.held, self.tasks, self.work = None, {}, {}, {}

    async def answer(self, asked):
        try:
            line = {"ok": await getattr(self, asked["do"])(asked) or {}}
        except LockError as error:
            line = {"error": WORDS.get(type(error), "refused"), "text": str(error), **reason(error)}
        except asyncio.CancelledError:
            line = {"error": "cancelled", "text": "as it was asked for"}
        except (Mistake, KeyError) as error:
            line = {"error": "configuration", "text": repr(error)}
        except BaseException as error:  # noqa: BLE001
            # What no user of the client should see.
            line = {"error": f"unexpected: {error!r}", "text": repr(error)}
        self.tasks.pop(asked["id"], None)
        say({"id": asked["id"], **line})

    async def open(self, asked):
        times = {"lease": "lease", "patience": "patience", "answer_timeout": "answer"}
        settings = {name: seconds(asked, field) for name, field in times.items()}
        kind = rlock_client.Locks if IS_SYNC else aio.Locks
        if "cluster" in asked:
            locks = kind.cluster(asked["cluster"], name=asked.get("name"), **settings)
        elif "sentinels" in asked:
            locks = kind.sentinels(asked["sentinels"], asked["master"], name=asked.get("name"), **settings)
        else:
            locks = kind(asked["url"], name=asked.get("name"), **settings)
        await self.done(locks.connect)
        self.locks = locks
        return {"without": ["cancel"] if IS_SYNC else []}

    def lock(self, asked):
        if self.locks is None:
            raise errors.Closed("there is no client")
        terms = {
            "wait": seconds(asked, "wait"),
            "lease": seconds(asked, "fixed" if "fixed" in asked else "lease"),
            "fixed": "fixed" in asked,
            "fenced": asked.get("fenced", False),
            "max_waiters": asked.get("max_waiters"),
        }
        if "owner" in asked:
            terms["owner"] = asked["owner"]
        if "replicas" in asked:
            terms["replicas"] = asked["replicas"], asked.get("within", 0) / 1_000
        if "permit" in asked:
            return self.locks.permit(asked["permit"], asked["limit"], **terms)
        for kind in ("lock", "read", "write", "all"):
            if kind in asked:
                return getattr(self.locks, kind)(asked[kind], **terms)
        raise Mistake(asked)

    async def acquire(self, asked):
        name, loop = asked["held"], asked["loop"]
        held = self.held[name] = await self.done(self.lock(asked).acquire)

        def lost():
            try:
                held.check()
            except Lost as error:
                say({"lost": name, "why": held.loss, **reason(error)})

        held.on_lost(lambda: loop.call_soon_threadsafe(lost))
        told = {"holder": held.holder}
        if "all" in asked:
            return {**told, "tokens": held.tokens}
        return told if held.token is None else {**told, "token": held.token}

    async def cancel(self, asked):
        if asked["of"] in self.tasks:
            self.tasks[asked["of"]].cancel()

    async def release(self, asked):
        await self.done(self.held.pop(asked["held"]).release)

    async def look(self, asked):
        held = self.held[asked["held"]]
        return {"lost": held.lost, "remaining": int(held.remaining * 1_000)}

    async def run(self, asked):
        number = asked["id"]
        if IS_SYNC:
            return await asyncio.to_thread(self.blocking_run, number, self.lock(asked))
        self.work[number] = finished = asyncio.Event()
        async with self.lock(asked) as held:
            say({"began": number, "token": held.token})
            await finished.wait()

    def blocking_run(self, number, lock):
        self.work[number] = finished = threading.Event()
        with lock as held:
            say({"began": number, "token": held.token})
            while not finished.wait(0.01):
                held.check()

    async def finish(self, asked):
        if asked["of"] in self.work:
            self.work.pop(asked["of"]).set()

    async def block(self, asked):
        # Called like this, it keeps the interpreter's lock.
        ctypes.PyDLL(None).usleep(asked["for"] * 1_000)

    async def close(self, asked):
        await self.done(self.locks.close)

    async def done(self, call):
        return await (asyncio.to_thread(call) if IS_SYNC else call())


async def main():
    loop, lines, adapter = asyncio.get_running_loop(), asyncio.Queue(), Adapter()
    loop.set_default_executor(ThreadPoolExecutor(THREADS))

    def read():
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while line := await lines.get():
        asked = {**json.loads(line), "loop": loop}
        adapter.tasks[asked["id"]] = asyncio.create_task(adapter.answer(asked))
    if IS_SYNC and adapter.locks is not None:
        # asyncio waits for the threads, which wait for locks.
        await adapter.done(adapter.locks.close)


asyncio.run(main())
