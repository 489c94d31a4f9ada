// What scripts/peers/redlock.sh gives node-redlock's tests in place of its own module.

export { default, ExecutionError, ResourceLockedError } from 'rlock-client/redlock';

// The value that the tests expect under the name of a lock: here a hash with the holder as its field.
export const holderOf = async (client, key) => (await client.hkeys(key))[0] ?? null;
