-- Change the sender list of one owner. Each change has a version, which grows, and by which processes follow.
--
-- KEYS: 1 the hash of all lists (version, entries, reload), 2 the owners by the version of their last change,
--       3 the entries of the owner.
-- ARGV: 1 add, remove or forget, 2 the owner, 3 the least version (microseconds since the epoch),
--       add and remove: 4 the pattern, add: 5 the value, 6 the most entries of one owner, 7 those of all owners.
-- Returns what became of it; of forget the number of entries.

local about, owners, list = KEYS[1], KEYS[2], KEYS[3]
local action, owner, pattern = ARGV[1], ARGV[2], ARGV[4]

-- Who has no memory left may remove and forget: then the first check is a command that needs none.
check_writes(list, 'hash', action == 'add' and 'HSET' or 'HDEL', 'DEL')
check_writes(owners, 'zset', 'ZADD', 'ZREM')
check_writes(about, 'hash', 'HSET', 'HINCRBY')
local last_version = redis.call('HGET', about, 'version') or '0'
local version = string.format('%.0f', math.max(last_version + 1, tonumber(ARGV[3])))
local entries = (redis.call('HGET', about, 'entries') or '0') + 0

local function next_version()
  redis.call('HSET', about, 'version', version)
  return version
end

if action == 'forget' then
  local count = redis.call('HLEN', list)
  redis.call('DEL', list)
  if redis.call('ZREM', owners, owner) == 1 then
    redis.call('HINCRBY', about, 'entries', -count)
    -- Who follows by the versions of owners would not see that one is gone.
    redis.call('HSET', about, 'reload', next_version())
  end
  return count
end

local former = redis.call('HGET', list, pattern)
if action == 'remove' then
  if not former then
    return 'unknown'
  end
  redis.call('HDEL', list, pattern)
  redis.call('HINCRBY', about, 'entries', -1)
  redis.call('ZADD', owners, next_version(), owner)
  return 'removed'
end

local value = ARGV[5]
if former and string.match(former, '^%a+') == string.match(value, '^%a+') then
  return 'already'
end
if not former then
  if redis.call('HLEN', list) >= tonumber(ARGV[6]) or entries >= tonumber(ARGV[7]) then
    return 'full'
  end
  redis.call('HINCRBY', about, 'entries', 1)
end
redis.call('HSET', list, pattern, value)
redis.call('ZADD', owners, next_version(), owner)
return former and 'changed' or 'added'
