/** A server of locks for tests: {@link rlock.redisson.testing.DevServer}. */
package rlock.redisson.testing;
