-- Move some staged counts, and the staged totals, into the model: they are added there and gone here, in one step.
-- So a repeat after a lost reply, or after a crash, adds nothing twice.
--
-- KEYS: staged totals, totals, then the staged counts of each class, then the counts of each class.
-- ARGV: names of tokens and sums, no more than unpack() takes.

local classes = (#KEYS - 2) / 2

local function add(key, field, amount)
  if amount ~= 0 and redis.call('HINCRBY', key, field, string.format('%.0f', amount)) == 0 then
    redis.call('HDEL', key, field)
  end
end

local totals = redis.call('HGETALL', KEYS[1])
for i = 1, #totals, 2 do
  if totals[i] ~= 'vocabulary' then add(KEYS[2], totals[i], tonumber(totals[i + 1])) end
end
redis.call('DEL', KEYS[1])
if #ARGV == 0 then return end

local before, after = {}, {}
for class = 1, classes do
  local from, to = KEYS[2 + class], KEYS[2 + classes + class]
  local staged, known = redis.call('HMGET', from, unpack(ARGV)), redis.call('HMGET', to, unpack(ARGV))
  local set, delete = {}, {}
  for i = 1, #ARGV do
    local old = tonumber(known[i] or 0)
    local new = old + tonumber(staged[i] or 0)
    before[i], after[i] = before[i] or old > 0, after[i] or new > 0
    if new == 0 then
      if known[i] then delete[#delete + 1] = ARGV[i] end
    elseif staged[i] then
      set[#set + 1] = ARGV[i]
      set[#set + 1] = new
    end
  end
  if #set > 0 then redis.call('HSET', to, unpack(set)) end
  if #delete > 0 then redis.call('HDEL', to, unpack(delete)) end
  redis.call('HDEL', from, unpack(ARGV))
end

-- A sum (its name begins with "=" and has no colon) is no token.
local vocabulary = 0
for i = 1, #ARGV do
  if before[i] ~= after[i] and not string.find(ARGV[i], '^=[^:]*$') then
    vocabulary = vocabulary + (after[i] and 1 or -1)
  end
end
add(KEYS[2], 'vocabulary', vocabulary)
