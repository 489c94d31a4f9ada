"""Holds a lock and prints its token; then writes each line that it reads, with this token, whether it still holds the lock or not.

python holder.py test_redis redis://127.0.0.1:6379 invoice:42
"""

import os
import signal
import sys
from importlib import import_module

from rlock_client import Locks

_, storage, place, name = sys.argv

signal.alarm(60)  # whatever becomes of the test
write = import_module(storage).write
held = Locks(os.environ["RLOCK_URL"]).lock(name, lease=1, fenced=True).acquire()
print(held.token, flush=True)
for line in sys.stdin:
    print("accepted" if write(place, held.token, line.strip()) else "refused", flush=True)
