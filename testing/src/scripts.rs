//! Lua scripts that do what Redisson's do, command for command: the layout, the publishing, the unlock latch.
//!
//! They are ours, written from what Redisson's do and not from the module's commands, which tests compare with them.
//! They err on the light side: where Redisson takes two commands and one does the same (`SET … PX` for `SET` and
//! `PEXPIRE`), they take one.

/// KEYS: lock. ARGV: lease, holder.
pub const ACQUIRE: &str = "
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";

/// KEYS: lock, channel. ARGV: message, lease, holder.
pub const RELEASE: &str = "
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], ARGV[1])
return 1";

/// KEYS: lock, channel, latch. ARGV: message, lease, holder, lease of the latch.
pub const RELEASE_WITH_LATCH: &str = "
local known = redis.call('get', KEYS[3])
if known then return tonumber(known) end
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  redis.call('set', KEYS[3], 0, 'px', ARGV[4])
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], ARGV[1])
redis.call('set', KEYS[3], 1, 'px', ARGV[4])
return 1";

/// KEYS: lock. ARGV: lease, holder, or the field of its write side.
pub const RENEW: &str = "
if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  return 1
end
return 0";

/// KEYS: lock, prefix of the holder's read holds. ARGV: lease, holder, field of its write side.
pub const READ_ACQUIRE: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call('hset', KEYS[1], 'mode', 'read', ARGV[2], 1)
  redis.call('set', KEYS[2] .. ':1', 1, 'px', ARGV[1])
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
if mode == 'read' or redis.call('hexists', KEYS[1], ARGV[3]) == 1 then
  local index = redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('set', KEYS[2] .. ':' .. index, 1, 'px', ARGV[1])
  redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), ARGV[1]))
  return nil
end
return redis.call('pttl', KEYS[1])";

/// KEYS: lock, channel, prefix of the holder's read holds, prefix of all. ARGV: message, holder.
pub const READ_RELEASE: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call('publish', KEYS[2], ARGV[1])
  return nil
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
local count = redis.call('hincrby', KEYS[1], ARGV[2], -1)
if count == 0 then redis.call('hdel', KEYS[1], ARGV[2]) end
redis.call('del', KEYS[3] .. ':' .. (count + 1))
if redis.call('hlen', KEYS[1]) > 1 then
  local longest = -3
  for _, holder in ipairs(redis.call('hkeys', KEYS[1])) do
    for index = tonumber(redis.call('hget', KEYS[1], holder)) or 0, 1, -1 do
      longest = math.max(longest, redis.call('pttl', KEYS[4] .. ':' .. holder .. ':rwlock_timeout:' .. index))
    end
  end
  if longest > 0 then
    redis.call('pexpire', KEYS[1], longest)
    return 0
  end
  if mode == 'write' then return 0 end
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], ARGV[1])
return 1";

/// KEYS: lock, prefix of the holder's read holds. ARGV: lease, holder.
pub const READ_RENEW: &str = "
local holds = tonumber(redis.call('hget', KEYS[1], ARGV[2]) or 0)
if holds == 0 then return 0 end
for index = holds, 1, -1 do
  redis.call('pexpire', KEYS[2] .. ':' .. index, ARGV[1])
end
redis.call('pexpire', KEYS[1], ARGV[1])
return 1";

/// KEYS: lock. ARGV: lease, field of the holder's write side.
pub const WRITE_ACQUIRE: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call('hset', KEYS[1], 'mode', 'write', ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";

/// KEYS: lock, channel. ARGV: message, lease, field of the holder's write side.
pub const WRITE_RELEASE: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if not mode then
  redis.call('publish', KEYS[2], ARGV[1])
  return 1
end
if mode ~= 'write' or redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 0
end
redis.call('hdel', KEYS[1], ARGV[3])
if redis.call('hlen', KEYS[1]) == 1 then
  redis.call('del', KEYS[1])
  redis.call('publish', KEYS[2], ARGV[1])
else
  redis.call('hset', KEYS[1], 'mode', 'read')
end
return 1";

/// A permit of a semaphore with permits that end. KEYS: semaphore, ends, channel. ARGV: end, time, permit.
pub const PERMIT_ACQUIRE: &str = "
local ended = redis.call('zrangebyscore', KEYS[2], 0, ARGV[2], 'limit', 0, 1)
if #ended > 0 then
  redis.call('zrem', KEYS[2], unpack(ended))
  redis.call('publish', KEYS[3], redis.call('incrby', KEYS[1], #ended))
end
if tonumber(redis.call('get', KEYS[1]) or 0) > 0 then
  redis.call('decr', KEYS[1])
  redis.call('zadd', KEYS[2], ARGV[1], ARGV[3])
  local left = redis.call('pttl', KEYS[1])
  if left > 0 then redis.call('pexpire', KEYS[2], left) end
  return 'OK'
end
local first = redis.call('zrange', KEYS[2], 0, 0, 'withscores')
return first[2] and ':' .. first[2]";

/// KEYS: semaphore, channel, ends. ARGV: permit, time.
pub const PERMIT_RELEASE: &str = "
local ended = redis.call('zscore', KEYS[3], ARGV[1])
if redis.call('zrem', KEYS[3], ARGV[1]) == 0 then return 0 end
redis.call('publish', KEYS[2], redis.call('incr', KEYS[1]))
return tonumber(ended) > tonumber(ARGV[2]) and 1 or 0";

/// The script of most hand-written locks. KEYS: lock. ARGV: holder.
pub const COMPARE_AND_DELETE: &str = "
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0";

/// All of them, to be loaded before EVALSHA.
pub const ALL: [&str; 12] = [
    ACQUIRE,
    RELEASE,
    RELEASE_WITH_LATCH,
    RENEW,
    READ_ACQUIRE,
    READ_RELEASE,
    READ_RENEW,
    WRITE_ACQUIRE,
    WRITE_RELEASE,
    PERMIT_ACQUIRE,
    PERMIT_RELEASE,
    COMPARE_AND_DELETE,
];
