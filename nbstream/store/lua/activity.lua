-- Add what one process has counted, note what it says of itself, and tell those who listen.
--
-- KEYS: processes, then the hashes of numbers.
-- ARGV: 1 the name of the process  2 what it says of itself; empty: nothing new, "-": it ends
--       3 the time, in seconds since the epoch
--       4 processes that were silent since this time are removed   5 for how many seconds the processes stay
--       6 the channel; empty: nobody is told
--       then of each hash for how many seconds it stays, how many numbers are added, and the name and number of each
-- A user of Redis who may not publish counts all the same. Returns 1 where others were told.

local processes_key = KEYS[1]
local process, status, now, silent_since, processes_seconds, channel = unpack(ARGV, 1, 6)

local at = 7
for i = 2, #KEYS do
  local seconds, ends = ARGV[at], at + 2 + 2 * ARGV[at + 1]
  for name = at + 2, ends - 1, 2 do
    redis.call('HINCRBY', KEYS[i], ARGV[name], ARGV[name + 1])
  end
  redis.call('EXPIRE', KEYS[i], seconds)
  at = ends
end

if status == '-' then
  redis.call('HDEL', processes_key, process)
elseif status ~= '' then
  local all = redis.call('HGETALL', processes_key)
  for i = 1, #all, 2 do
    if (tonumber(string.match(all[i + 1], '^%d+')) or 0) < tonumber(silent_since) then
      redis.call('HDEL', processes_key, all[i])
    end
  end
  redis.call('HSET', processes_key, process, now .. ' ' .. status)
  redis.call('EXPIRE', processes_key, processes_seconds)
end

if channel == '' then
  return 0
end
local told = redis.pcall('PUBLISH', channel, now)
return type(told) == 'number' and 1 or 0
