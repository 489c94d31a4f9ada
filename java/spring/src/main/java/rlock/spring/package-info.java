/** rlock's locks for Spring Boot, next to Redisson's own starter: {@link rlock.spring.Locked} and what belongs to it. */
package rlock.spring;
