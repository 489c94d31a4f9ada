"""A web service that ships each order once at a time, however many of its processes run: FastAPI, and a lock for each order.

RLOCK_URL=redis://127.0.0.1:6379 uvicorn service:app --workers 4
"""

import asyncio
import os
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException

from rlock_client import Busy, Lost
from rlock_client.aio import Locks

shipped: dict[str, int] = {}  # stands for the database


@asynccontextmanager
async def lifespan(app: FastAPI):
    async with Locks(os.environ.get("RLOCK_URL", "redis://127.0.0.1:6379"), name="shipping") as app.state.locks:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{order}/ship")
async def ship(order: str) -> dict[str, int]:
    try:
        # A request that waits has a place in the server's queue. The token is for the database, which refuses lower ones.
        async with app.state.locks.lock(f"order:{order}:lock", wait=2, fenced=True) as held:
            return {"shipped": await ship_once(order, held.token)}
    except Busy:
        raise HTTPException(409, "another request ships this order; try later") from None
    except Lost as error:
        raise HTTPException(503, f"stopped: {error}") from None


async def ship_once(order: str, token: int) -> int:
    if token > shipped.get(order, 0):
        await asyncio.sleep(0.05)  # the work
        shipped[order] = token
    return shipped[order]
