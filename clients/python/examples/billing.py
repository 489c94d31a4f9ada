"""Bills customers, each by one process at a time: the program of docs/tutorial.md.

python billing.py redis://127.0.0.1:6379 ann bob
"""

import sys
import time

from rlock_client import Locks, Lost, exit_on_sigterm


# snippet: bill
def bill(locks, customer, invoices, wait=10):
    with locks.lock(f"billing:{customer}", wait=wait) as held:  # Busy after 10 s
        for invoice in invoices:
            held.check()  # raises Lost; asks no server
            send(customer, invoice)


# end


def send(customer, invoice):
    print(f"{customer}: invoice {invoice}", flush=True)
    time.sleep(0.5)


# snippet: main
def main(url, customers):
    exit_on_sigterm()  # a deploy releases the lock at once
    with Locks(url) as locks:
        for customer in customers:
            try:
                bill(locks, customer, range(1, 21))
            except Lost as lost:
                print(f"{customer}: stopped, {lost.reason}", flush=True)


# end

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
