-- Remember a batch of checked messages, and forget the oldest ones where there are more than the limit.
--
-- KEYS: recent.
-- ARGV: 1 for how many seconds a message is remembered
--       2 messages that were checked up to this time are forgotten (seconds since the epoch)
--       3 how many messages are remembered
--       4 prefix of the messages' keys (they share the hash tag of KEYS)
--       then of each message its time, its id, and what is remembered of it
-- At most twice as many messages are forgotten as are added. The same batch may be written again after a lost reply.

local recent_key = KEYS[1]
local seconds, forget_until, max_messages, prefix = unpack(ARGV, 1, 4)
local added = (#ARGV - 4) / 3

for i = 5, #ARGV, 3 do
  local time, id, packed = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  redis.call('SET', prefix .. id, packed, 'EX', seconds)
  redis.call('ZADD', recent_key, time, id)
end
redis.call('EXPIRE', recent_key, seconds)
redis.call('ZREMRANGEBYSCORE', recent_key, '-inf', forget_until)

local surplus = redis.call('ZCARD', recent_key) - tonumber(max_messages)
if surplus > 0 then
  for _, id in ipairs(redis.call('ZRANGE', recent_key, 0, math.min(surplus, 2 * added) - 1)) do
    redis.call('ZREM', recent_key, id)
    redis.call('UNLINK', prefix .. id)
  end
end
