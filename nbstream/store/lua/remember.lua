-- Remember a batch of checked messages, and forget the oldest ones where there are more than the limit.
--
-- KEYS: recent, rows, row indices.
-- ARGV: 1 for how many seconds a message is remembered
--       2 messages that were checked up to this time are forgotten (seconds since the epoch)
--       3 how many messages are remembered
--       4 prefixes of the messages' keys, 5 of the rows' keys, 6 of the indices' keys (they share the hash tag of KEYS)
--       then of each message its time, its id, what is remembered of it, its row, and the names of the indices that
--       have the row, separated by spaces; a message without a row has two empty values there
-- At most twice as many messages are forgotten as are added, and twice as many rows, and some more. The same batch may
-- be written again after a lost reply.
--
-- An older version that shares the model adds messages without rows, and forgets messages but not their rows. So rows
-- are forgotten by themselves: those that are older than the oldest message that is remembered. A row may have expired
-- by then; what has to be removed is in the row indices.

local recent_key, rows_key, indices_key = unpack(KEYS)
local seconds, forget_until, max_messages, prefix, row_prefix, index_prefix = unpack(ARGV, 1, 6)
local added = (#ARGV - 6) / 5
local touched = {}

local function forget_row(id)
  local found = redis.call('ZRANGE', indices_key, '[' .. id .. ' ', '(' .. id .. '!', 'BYLEX', 'LIMIT', 0, 1)[1]
  if found then
    for name in string.gmatch(string.sub(found, #id + 2), '%S+') do
      redis.call('ZREM', index_prefix .. name, id)
    end
    redis.call('ZREM', indices_key, found)
    redis.call('ZREM', rows_key, id)
    redis.call('UNLINK', row_prefix .. id)
  end
end

for i = 7, #ARGV, 5 do
  local time, id, packed, row, names = unpack(ARGV, i, i + 4)
  redis.call('SET', prefix .. id, packed, 'EX', seconds)
  redis.call('ZADD', recent_key, time, id)
  if row ~= '' then
    if redis.call('ZADD', rows_key, time, id) == 0 then -- it was checked before, and may be in other indices
      forget_row(id)
      redis.call('ZADD', rows_key, time, id)
    end
    redis.call('SET', row_prefix .. id, row, 'EX', seconds)
    redis.call('ZADD', indices_key, 0, id .. ' ' .. names)
    for name in string.gmatch(names, '%S+') do
      redis.call('ZADD', index_prefix .. name, time, id)
      touched[index_prefix .. name] = true
    end
    touched[rows_key] = true
    touched[indices_key] = true
  end
end
redis.call('EXPIRE', recent_key, seconds)
for key in pairs(touched) do
  redis.call('EXPIRE', key, seconds)
end
redis.call('ZREMRANGEBYSCORE', recent_key, '-inf', forget_until)

local surplus = redis.call('ZCARD', recent_key) - tonumber(max_messages)
if surplus > 0 then
  for _, id in ipairs(redis.call('ZRANGE', recent_key, 0, math.min(surplus, 2 * added) - 1)) do
    redis.call('ZREM', recent_key, id)
    redis.call('UNLINK', prefix .. id)
  end
end

local oldest = redis.call('ZRANGE', recent_key, 0, 0, 'WITHSCORES')[2]
local before = oldest and '(' .. oldest or '+inf'
for _, id in ipairs(redis.call('ZRANGE', rows_key, '-inf', before, 'BYSCORE', 'LIMIT', 0, 2 * added + 10)) do
  forget_row(id)
end
