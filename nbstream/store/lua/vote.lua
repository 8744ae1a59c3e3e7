-- Set or remove what one user calls a mailing. Each user has one vote: what he said last.
--
-- KEYS: 1 the votes (user: label and message key; #ham, #spam: how many), 2 the token hashes by user,
--       3 the mailings of the user by time.
-- ARGV: 1 the mailing, 2 the user, 3 the label, empty to remove it, 4 the message key, empty for whichever it is,
--       5 the token hashes, 6 for how many seconds all stays, 7 the most users with token hashes,
--       8 the most users, 9 now (seconds since the epoch).

local votes, tokens, mailings = KEYS[1], KEYS[2], KEYS[3]
local mailing, user, label, key, seconds = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6]

local function has_room(hash, limit)
  return redis.call('HGET', hash, user) or redis.call('HLEN', hash) < tonumber(limit)
end

local former = redis.call('HGET', votes, user)
local former_label = former and string.match(former, '^%a+')
if label == '' then
  if former and (key == '' or former == former_label .. ' ' .. key) then
    redis.call('HDEL', votes, user)
    redis.call('HDEL', tokens, user)
    redis.call('HINCRBY', votes, '#' .. former_label, -1)
  end
elseif has_room(votes, ARGV[8]) then
  if former_label ~= label then
    if former then
      redis.call('HINCRBY', votes, '#' .. former_label, -1)
    end
    redis.call('HINCRBY', votes, '#' .. label, 1)
  end
  redis.call('HSET', votes, user, label .. ' ' .. key)
  if has_room(tokens, ARGV[7]) then
    redis.call('HSET', tokens, user, ARGV[5])
  end
  redis.call('ZADD', mailings, ARGV[9], mailing)
  redis.call('ZREMRANGEBYSCORE', mailings, '-inf', ARGV[9] - seconds)
  for _, name in ipairs(KEYS) do
    redis.call('EXPIRE', name, seconds)
  end
end
