-- Add what one process has counted, note what it says of itself, and tell those who listen.
--
-- KEYS: activity of this hour by minute, activity of this day by hour, processes.
-- ARGV: 1 the minute of the hour   2 the hour of the day
--       3, 4 for how many seconds the two hashes of counts stay
--       5 the name of the process  6 what it says of itself; empty: nothing new, "-": it ends
--       7 the time, in seconds since the epoch
--       8 processes that were silent since this time are removed   9 for how many seconds the processes stay
--       10 the channel; empty: nobody is told
--       then of each count its name and the number to add
-- A user of Redis who may not publish counts all the same. Returns 1 where others were told.

local minutes_key, hours_key, processes_key = unpack(KEYS)
local minute, hour, minutes_seconds, hours_seconds = unpack(ARGV, 1, 4)
local process, status, now, silent_since, processes_seconds, channel = unpack(ARGV, 5, 10)

for i = 11, #ARGV, 2 do
  redis.call('HINCRBY', minutes_key, minute .. ':' .. ARGV[i], ARGV[i + 1])
  redis.call('HINCRBY', hours_key, hour .. ':' .. ARGV[i], ARGV[i + 1])
end
if #ARGV > 10 then
  redis.call('EXPIRE', minutes_key, minutes_seconds)
  redis.call('EXPIRE', hours_key, hours_seconds)
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
