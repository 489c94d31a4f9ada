"""Python's client for asyncio, driven line by line: clients/conformance/README.md says how."""

import asyncio
import ctypes
import json
import sys
import threading

from rlock_client import LockError, Lost, aio, errors

WORDS = {kind: word for word, kind in errors._BY_WORD.items()}


def say(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def seconds(asked, field):
    return None if asked.get(field) is None else asked[field] / 1_000


def reason(error):
    return {"reason": error.reason} if isinstance(error, Lost) and error.reason else {}


class Mistake(Exception):
    """A mistake of the suite itself."""


class Failed(Exception):
    """The error with which work fails."""


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
        except Failed as error:
            line = {"error": "failed", "text": str(error)}
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
        if "cluster" in asked:
            locks = aio.Locks.cluster(asked["cluster"], name=asked.get("name"), **settings)
        elif "sentinels" in asked:
            locks = aio.Locks.sentinels(asked["sentinels"], asked["master"], name=asked.get("name"), **settings)
        else:
            locks = aio.Locks(asked["url"], name=asked.get("name"), **settings)
        await locks.connect()
        self.locks = locks
        return {"without": []}

    def opened(self):
        if self.locks is None:
            raise errors.Closed("there is no client")
        return self.locks

    def lock(self, asked):
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
            return self.opened().permit(asked["permit"], asked["limit"], **terms)
        for kind in ("lock", "read", "write", "all"):
            if kind in asked:
                return getattr(self.opened(), kind)(asked[kind], **terms)
        raise Mistake(asked)

    async def acquire(self, asked):
        held = self.keep(asked["held"], await self.lock(asked).acquire())
        return self.described(held, "all" in asked)

    async def detach(self, asked):
        within = seconds(asked, "within")
        text = await self.held[asked["held"]].detach(within)
        del self.held[asked["held"]]
        return {"text": text}

    async def adopt(self, asked):
        held = self.keep(asked["held"], await self.opened().adopt(asked["text"]))
        return self.described(held, asked["text"].startswith("rlock1/several/"))

    def keep(self, name, held):
        self.held[name] = held

        def lost():
            try:
                held.check()
            except Lost as error:
                say({"lost": name, "why": held.loss, **reason(error)})

        held.on_lost(lost)
        return held

    def described(self, held, has_several):
        description = {"holder": held.holder}
        if has_several:
            return {**description, "tokens": held.tokens}
        return description if held.token is None else {**description, "token": held.token}

    async def cancel(self, asked):
        if asked["of"] in self.tasks:
            self.tasks[asked["of"]].cancel()

    async def release(self, asked):
        await self.held.pop(asked["held"]).release()

    async def look(self, asked):
        held = self.held[asked["held"]]
        return {"lost": held.lost, "remaining": int(held.remaining * 1_000)}

    async def run(self, asked):
        async with self.lock(asked) as held:
            await self.worked(asked, token=held.token)

    async def lead(self, asked):
        async def work(held):
            try:
                await self.worked(asked)
            finally:
                say({"ended": asked["id"]})

        await self.opened().lead(asked["lock"], work)

    async def once(self, asked):
        async def work(held):
            return (await self.worked(asked))["value"].encode()

        terms = {name: seconds(asked, name) for name in ("keep", "wait", "lease")}
        value = await self.opened().once(asked["once"], work, max_waiters=asked.get("max_waiters"), **terms)
        return {"value": value.decode()}

    async def forget(self, asked):
        await self.opened().forget(asked["once"])

    async def worked(self, asked, **news):
        """Work that lasts until it is finished, or fails. Returns the request that has finished it."""
        number = asked["id"]
        self.work[number] = finished = asyncio.get_running_loop().create_future()
        say({"began": number, **news})
        try:
            return await finished
        finally:
            self.work.pop(number, None)

    async def finish(self, asked):
        if (work := self.work.pop(asked["of"], None)) and not work.done():
            work.set_result(asked)

    async def fail(self, asked):
        if (work := self.work.pop(asked["of"], None)) and not work.done():
            work.set_exception(Failed("as it was asked for"))

    async def block(self, asked):
        # A call through PyDLL keeps the interpreter's lock.
        ctypes.PyDLL(None).usleep(asked["for"] * 1_000)

    async def close(self, asked):
        await self.locks.close()


async def main():
    loop, lines, adapter = asyncio.get_running_loop(), asyncio.Queue(), Adapter()

    def read():
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while line := await lines.get():
        asked = json.loads(line)
        adapter.tasks[asked["id"]] = asyncio.create_task(adapter.answer(asked))


asyncio.run(main())
