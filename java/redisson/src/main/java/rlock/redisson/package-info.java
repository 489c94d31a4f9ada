/** Redisson's own locks by the RLOCK commands: {@link rlock.redisson.RedissonLocks} is the entrance. */
package rlock.redisson;
