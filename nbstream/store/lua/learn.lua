-- Learn, relearn or unlearn one message in one atomic step.
--
-- KEYS: ledger entry, totals, changes, sequence, history, then the counts of each class, then its first scores.
-- ARGV: 1 version the ledger entry must have now ("" = there is none)
--       2 column of the class to take from (0 = nothing)   3 its weight   4 its tokens   5 its sums
--       6 column of the class to add to    (0 = nothing)   7 its weight   8 its tokens   9 its sums
--       10 length to which the change stream is trimmed
--       11 seconds until the new ledger entry expires
--       12 length to which the history is trimmed   13 first scores kept of each class
--       14 first score to take out ("" = none)   15 first score to put in ("" = none)
--       16 number of names and values of the history's record, 17... these,
--       then the fields and values of the new ledger entry (none = delete it)
-- Distinct tokens come as one text, separated by line feeds, and each is given the weight; sums as one text of names and
-- amounts in turn, separated by spaces. A sum is stored and sent like a token, but belongs neither to the totals nor
-- to the vocabulary. Returns the change's stream id; or, where the ledger entry is not of the expected version, its
-- fields and values (none = there is no entry): then nothing was changed.
--
-- Counts stay below 2^53, so that Lua's numbers hold them exactly. A count that reaches zero is deleted. None is
-- ever clamped: (+1,-1) and (-1,+1) must both give 0. The change carries the resulting counts of the classes that
-- it touched; the others are as they were.
--
-- A first score begins with its time, by which it is sorted. The change names the one that went, the one that came,
-- and the oldest that is left of its class where older ones went for it.

local CHUNK = 1000  -- unpack() is limited by Lua's stack, about 8,000 values
local first_counts = 6
local labels = {}
local classes = (#KEYS - first_counts + 1) / 2
for i = first_counts, first_counts + classes - 1 do labels[#labels + 1] = string.match(KEYS[i], '[^:]+$') end

if (redis.call('HGET', KEYS[1], 'version') or '') ~= ARGV[1] then
  return redis.call('HGETALL', KEYS[1])
end

-- table.concat writes 14 digits of a number, and Redis formats one once more: so a number becomes text here, once.
-- "%d" takes half the time of "%.0f", but is a C long, which has 32 bits somewhere.
local format, texts = string.format, {}
local function text(number)
  if number < 2147483648 and number > -2147483648 then return format('%d', number) end
  return format('%.0f', number)
end

-- The distinct tokens and sums of both sides, in order, and by class what is added at each place. The tokens of one
-- side are distinct, and no sum is called like a token; so only those of the other side are looked for.
local take, give = tonumber(ARGV[2]), tonumber(ARGV[6])
local tokens, count, place, is_sum, changes, touched = {}, 0, {}, {}, {}, {}
local names, named = '', 0  -- the tokens of the first side joined, as they came, and how many these are
local function plan(column, sign, weight, joined, sums)
  if column == 0 or (weight == 0 and sums == '') then return 0 end
  local change, total = changes[column] or {}, 0
  if not changes[column] then touched[#touched + 1] = column end
  changes[column] = change
  if weight ~= 0 then
    local amount, others = sign * weight, next(place) ~= nil
    for token in string.gmatch(joined, '[^\n]+') do
      local i = others and place[token]
      if not i then
        count = count + 1
        i = count
        tokens[i] = token
      end
      change[i] = (change[i] or 0) + amount
      total = total + amount
    end
    if not others then names, named = joined, count end
  end
  for name, amount in string.gmatch(sums, '(%S+) (%S+)') do
    local i = place[name]
    if not i then
      count = count + 1
      i = count
      tokens[i] = name
    end
    change[i] = (change[i] or 0) + sign * tonumber(amount)
    is_sum[name] = true
  end
  if give ~= 0 and sign < 0 then
    for i = 1, count do place[tokens[i]] = i end
  end
  return total
end

local taken = plan(take, -1, tonumber(ARGV[3]), ARGV[4], ARGV[5])
local given = plan(give, 1, tonumber(ARGV[7]), ARGV[8], ARGV[9])

-- How many of the tokens that came or went, as far as the touched classes know, no other class has.
local function vocabulary_change(came_or_went, gained)
  if #came_or_went == 0 then return 0 end
  local elsewhere, sum = {}, 0
  for column = 1, classes do
    if not changes[column] then
      local values = redis.call('HMGET', KEYS[first_counts + column - 1], unpack(came_or_went))
      for i = 1, #came_or_went do
        if values[i] and tonumber(values[i]) > 0 then elsewhere[i] = true end
      end
    end
  end
  for i = 1, #came_or_went do
    if not elsewhere[i] then sum = sum + gained[i] end
  end
  return sum
end

-- Read and write the counts of the tokens in the touched classes, a chunk at a time, and follow the vocabulary: which
-- of the tokens some touched class has after it and none had before, or the other way. All that is done for each
-- token counts here; a string is a number where one is added to it, in half the time of tonumber.
local resulting, vocabulary, several = {}, 0, #touched > 1
for _, column in ipairs(touched) do resulting[column] = {} end
for first = 1, count, CHUNK do
  local last = math.min(first + CHUNK - 1, count)
  local before, after, came_or_went, gained = {}, {}, {}, {}
  local function note(token, had, has)
    if had ~= has and not is_sum[token] then
      came_or_went[#came_or_went + 1] = token
      gained[#gained + 1] = has and 1 or -1
    end
  end
  for _, column in ipairs(touched) do
    local key, change, result = KEYS[first_counts + column - 1], changes[column], resulting[column]
    local values = redis.call('HMGET', key, unpack(tokens, first, last))
    local set, filled, delete = {}, 0, {}
    for i = first, last do
      local token, value, by = tokens[i], values[i - first + 1], change[i]
      local old = value and value + 0 or 0
      local new = by and old + by or old
      if by then
        local told = old == 0 and texts[new] or text(new)
        if old == 0 then texts[new] = told end  -- new tokens have all the same count
        result[i] = told
        if new == 0 then
          delete[#delete + 1] = token
        else
          set[filled + 1], set[filled + 2] = token, told
          filled = filled + 2
        end
      else
        result[i] = value or '0'
      end
      if several then
        before[i], after[i] = before[i] or old > 0, after[i] or new > 0
      elseif (old > 0) ~= (new > 0) then
        note(token, old > 0, new > 0)
      end
    end
    if filled > 0 then redis.call('HSET', key, unpack(set)) end
    if #delete > 0 then redis.call('HDEL', key, unpack(delete)) end
  end
  if several then
    for i = first, last do note(tokens[i], before[i], after[i]) end
  end
  vocabulary = vocabulary + vocabulary_change(came_or_went, gained)
end

local function total(field, change)
  if change == 0 then
    return redis.call('HGET', KEYS[2], field) or '0'
  end
  local result = tonumber(redis.call('HGET', KEYS[2], field) or 0) + change
  if result == 0 then
    redis.call('HDEL', KEYS[2], field)
  else
    redis.call('HSET', KEYS[2], field, result)
  end
  return text(result)
end

local totals = {}
for column = 1, classes do
  local messages, weights = 0, 0
  if column == take then messages, weights = messages - 1, weights + taken end
  if column == give then messages, weights = messages + 1, weights + given end
  totals[#totals + 1] = total('messages:' .. labels[column], messages)
  totals[#totals + 1] = total('tokens:' .. labels[column], weights)
end
totals[#totals + 1] = total('vocabulary', vocabulary)

local sequence = redis.call('INCR', KEYS[4])

if named == 0 or count > named then
  names = names .. (named > 0 and '\n' or '') .. table.concat(tokens, '\n', named + 1)
end
local change = {'sequence', sequence, 'totals', table.concat(totals, ' '), 'tokens', names}
for _, column in ipairs(touched) do
  change[#change + 1] = 'counts:' .. labels[column]
  change[#change + 1] = table.concat(resulting[column], ' ')
end

local function first_scores(column) return KEYS[first_counts + classes + column - 1] end
if take ~= 0 and ARGV[14] ~= '' and redis.call('ZREM', first_scores(take), ARGV[14]) == 1 then
  change[#change + 1] = 'first:gone:' .. labels[take]
  change[#change + 1] = ARGV[14]
end
if give ~= 0 and ARGV[15] ~= '' then
  redis.call('ZADD', first_scores(give), string.match(ARGV[15], '^%S+'), ARGV[15])
  change[#change + 1] = 'first:come:' .. labels[give]
  change[#change + 1] = ARGV[15]
  if redis.call('ZREMRANGEBYRANK', first_scores(give), 0, -ARGV[13] - 1) > 0 then
    change[#change + 1] = 'first:oldest:' .. labels[give]
    change[#change + 1] = redis.call('ZRANGE', first_scores(give), 0, 0)[1]
  end
end
local id = redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[10], '*', unpack(change))

-- The record keeps the whole entry that is replaced.
local noted = tonumber(ARGV[16])
local record = {'id', string.match(KEYS[1], '[^:]+$'), unpack(ARGV, 17, 16 + noted)}
local former = redis.call('HGETALL', KEYS[1])
for i = 1, #former, 2 do
  record[#record + 1] = 'former:' .. former[i]
  record[#record + 1] = former[i + 1]
end
redis.call('XADD', KEYS[5], 'MAXLEN', '~', ARGV[12], '*', unpack(record))

redis.call('DEL', KEYS[1])
if #ARGV > 16 + noted then
  redis.call('HSET', KEYS[1], 'change', id, unpack(ARGV, 17 + noted))
  redis.call('EXPIRE', KEYS[1], ARGV[11])
end
return id
