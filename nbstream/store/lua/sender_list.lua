-- Change the sender list of one owner. Each change is an entry of a stream, which names the one before.
--
-- KEYS: 1 the hash of all lists (entries), 2 the owners, 3 the entries of the owner, 4 the change stream.
-- ARGV: 1 add, remove or forget, 2 the owner, add and remove: 3 the pattern, add: 4 the value, 5 the most entries of
--       one owner, 6 those of all owners.
-- Returns what became of it; of forget the number of entries.

local about, owners, list, changes = unpack(KEYS)
local action, owner, pattern = unpack(ARGV, 1, 3)
local MAX_CHANGES = 1000  -- who is further behind reads all lists again

-- Who has no memory left may remove and forget: then the first check is a command that needs none.
check_writes(list, 'hash', action == 'add' and 'HSET' or 'HDEL', 'DEL')
check_writes(owners, 'zset', 'ZADD', 'ZREM')
check_writes(about, 'hash', 'HINCRBY')
check_writes(changes, 'stream', 'XADD', 'XREVRANGE')
local entries = (redis.call('HGET', about, 'entries') or '0') + 0

local function note_change(precision, max_changes, ...)
  local last = redis.call('XREVRANGE', changes, '+', '-', 'COUNT', 1)[1]
  local predecessor = last and last[1] or '0-0'
  redis.call('XADD', changes, 'MAXLEN', precision, max_changes, '*', 'predecessor', predecessor, ...)
end

if action == 'forget' then
  local count = redis.call('HLEN', list)
  redis.call('DEL', list)
  if redis.call('ZREM', owners, owner) == 1 then
    redis.call('HINCRBY', about, 'entries', -count)
    note_change('=', 1)  -- the owner is in no entry any more: all lists are read again
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
  redis.call('ZADD', owners, 0, owner)
  note_change('~', MAX_CHANGES, 'owner', owner)
  return 'removed'
end

local value = ARGV[4]
if former and string.match(former, '^%a+') == string.match(value, '^%a+') then
  return 'already'
end
if not former then
  if redis.call('HLEN', list) >= tonumber(ARGV[5]) or entries >= tonumber(ARGV[6]) then
    return 'full'
  end
  redis.call('HINCRBY', about, 'entries', 1)
end
redis.call('HSET', list, pattern, value)
redis.call('ZADD', owners, 0, owner)
note_change('~', MAX_CHANGES, 'owner', owner)
return former and 'changed' or 'added'
