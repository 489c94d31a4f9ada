"""Holds a lock and works until SIGTERM; the next process that waits for the lock then has it at once.

python deploy.py redis://127.0.0.1:6379 reports
"""

import sys
import threading

from rlock_client import Locks, exit_on_sigterm

_, url, key = sys.argv

exit_on_sigterm()
with Locks(url) as locks, locks.lock(key):
    print("held", flush=True)
    threading.Event().wait()  # the work
