/** ShedLock's locks by the RLOCK commands: {@link rlock.shedlock.RlockLockProvider}. */
package rlock.shedlock;
