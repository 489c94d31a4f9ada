/** Redisson's own locks by the RLOCK commands: {@link rlock.redisson.Rlock} is the entrance. */
package rlock.redisson;
