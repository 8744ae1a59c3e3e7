-- Move some staged counts, and the staged totals, into the model: one step adds them there and removes them here.
-- Therefore a repetition after a lost reply, or after a crash, adds nothing twice.
--
-- KEYS: staged totals, totals, then the staged counts of each class, then the counts of each class.
-- ARGV: names of tokens and sums, no more than unpack() takes.

local staged_totals_key, totals_key = unpack(KEYS, 1, 2)
local class_count = (#KEYS - 2) / 2
local names = ARGV

local function add(key, field, amount)
  if amount ~= 0 and redis.call('HINCRBY', key, field, string.format('%.0f', amount)) == 0 then
    redis.call('HDEL', key, field)
  end
end

local totals = redis.call('HGETALL', staged_totals_key)
for i = 1, #totals, 2 do
  if totals[i] ~= 'vocabulary' then add(totals_key, totals[i], tonumber(totals[i + 1])) end
end
redis.call('DEL', staged_totals_key)
if #names == 0 then return end

local was_present, is_present = {}, {}
for column = 1, class_count do
  local staged_key, counts_key = KEYS[2 + column], KEYS[2 + class_count + column]
  local staged = redis.call('HMGET', staged_key, unpack(names))
  local stored = redis.call('HMGET', counts_key, unpack(names))
  local to_set, to_delete = {}, {}
  for i = 1, #names do
    local before = tonumber(stored[i] or 0)
    local after = before + tonumber(staged[i] or 0)
    was_present[i], is_present[i] = was_present[i] or before > 0, is_present[i] or after > 0
    if after == 0 then
      if stored[i] then to_delete[#to_delete + 1] = names[i] end
    elseif staged[i] then
      to_set[#to_set + 1] = names[i]
      to_set[#to_set + 1] = after
    end
  end
  if #to_set > 0 then redis.call('HSET', counts_key, unpack(to_set)) end
  if #to_delete > 0 then redis.call('HDEL', counts_key, unpack(to_delete)) end
  redis.call('HDEL', staged_key, unpack(names))
end

-- A sum is not a token: its name begins with "=" and has no colon.
local growth = 0
for i = 1, #names do
  if was_present[i] ~= is_present[i] and not string.find(names[i], '^=[^:]*$') then
    growth = growth + (is_present[i] and 1 or -1)
  end
end
add(totals_key, 'vocabulary', growth)
