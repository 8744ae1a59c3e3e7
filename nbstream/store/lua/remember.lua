-- Remember a batch of checked messages, and forget the oldest where they are more than permitted.
--
-- KEYS: recent.
-- ARGV: 1 seconds for which a message is kept   2 what was checked before that time goes (seconds since the epoch)
--       3 how many are kept   4 what the names of the messages' keys begin with (they share the hash tag of KEYS)
--       then of each message its time, its id, and what is kept of it
-- At most twice as many go as come. The same batch may be written again after a lost reply.

local recent, first_message = KEYS[1], 5
local added = (#ARGV - first_message + 1) / 3

for i = first_message, #ARGV, 3 do
  redis.call('SET', ARGV[4] .. ARGV[i + 1], ARGV[i + 2], 'EX', ARGV[1])
  redis.call('ZADD', recent, ARGV[i], ARGV[i + 1])
end
redis.call('EXPIRE', recent, ARGV[1])
redis.call('ZREMRANGEBYSCORE', recent, '-inf', ARGV[2])

local surplus = redis.call('ZCARD', recent) - tonumber(ARGV[3])
if surplus > 0 then
  for _, id in ipairs(redis.call('ZRANGE', recent, 0, math.min(surplus, 2 * added) - 1)) do
    redis.call('ZREM', recent, id)
    redis.call('UNLINK', ARGV[4] .. id)
  end
end
