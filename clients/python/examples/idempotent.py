"""An idempotent HTTP handler: a request that is sent again, with the same Idempotency-Key, gets the answer of the first one.

In a service with users, the user is a part of the key, too. RLOCK_URL is the server with the locks.
"""

import hashlib
import os
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import FastAPI, Header, HTTPException, Request, Response

from rlock_client import Busy, QueueFull
from rlock_client.aio import Locks

locks = Locks(os.environ.get("RLOCK_URL", "redis://127.0.0.1:6379"), name="payments")
payments: list[dict[str, int]] = []  # stands for the service's own storage


@asynccontextmanager
async def lifespan(_):
    async with locks:
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/payments", status_code=201)
async def pay(request: Request, idempotency_key: Annotated[str, Header(pattern=r"^[\w-]{16,64}$")]):
    body = await request.body()
    digest = hashlib.sha256(body).hexdigest()

    async def work(_):  # an error is not stored: the next request tries again
        payments.append(await request.json())
        return {"request": digest, "payment": len(payments)}

    try:
        first = await locks.once(f"/payments:{idempotency_key}", work, keep=24 * 60 * 60, wait=10, json=True)
    except (Busy, QueueFull):
        return Response(status_code=503, headers={"Retry-After": "1"})
    if first["request"] != digest:
        raise HTTPException(422, "Idempotency-Key: used for another request")
    return {"payment": first["payment"]}
