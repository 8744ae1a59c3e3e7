-- Take over the oldest entry that its consumer has left alone for too long; set it aside if it was tried too often.
--
-- KEYS: in, out, dead.
-- ARGV: 1 group   2 our consumer   3 milliseconds   4 tries   5 about how many answers are kept   6 and dead entries
--       7 the answer to what is set aside
-- Returns what was done, the entry's stream id and its names and values: "claimed", "dead", or "lost" where somebody
-- has removed the entry. Returns false where there is none.

local held = redis.call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[3], '-', '+', 1)[1]
if not held then return false end
local place, tried = held[1], held[4]
local entry = redis.call('XRANGE', KEYS[1], place, place)[1]
if not entry then
  redis.call('XACK', KEYS[1], ARGV[1], place)
  return {'lost', place, {}}
end
if tried < tonumber(ARGV[4]) then
  redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], place)
  return {'claimed', place, entry[2]}
end
-- An entry that can be read has few fields; of one that has thousands Lua could not hand on all at once.
local fields, id = {}, place
for i = 1, math.min(#entry[2], 100), 2 do
  fields[i], fields[i + 1] = entry[2][i], entry[2][i + 1]
  if entry[2][i] == 'id' then id = string.sub(entry[2][i + 1], 1, 256) end
end
redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[6], '*', 'entry', place, 'tries', tried, unpack(fields))
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[5], '*', 'entry', place, 'id', id, 'error', ARGV[7])
redis.call('XACK', KEYS[1], ARGV[1], place)
redis.call('XDEL', KEYS[1], place)
return {'dead', place, {}}
