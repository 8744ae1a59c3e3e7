-- Learn, relearn or unlearn one message in one atomic step.
--
-- KEYS: ledger entry, totals, changes, sequence, then the counts of each class.
-- ARGV: 1 version the ledger entry must have now ("" = there is none)
--       2 column of the class to take from (0 = nothing)   3 its weight   4 its tokens
--       5 column of the class to add to    (0 = nothing)   6 its weight   7 its tokens
--       8 length to which the change stream is trimmed
--       9 seconds until the new ledger entry expires, 10... its fields and values (none = delete it)
-- Tokens come as one text, separated by line feeds. Returns the change's stream id, or false where the ledger
-- entry is not of the expected version: then nothing was changed.
--
-- Counts stay below 2^53, so that Lua's numbers hold them exactly; "%.0f" writes them in full.
-- A count that reaches zero is deleted. None is ever clamped: (+1,-1) and (-1,+1) must both give 0.

local CHUNK = 1000  -- unpack() is limited by Lua's stack, about 8,000 values
local first_counts = 5
local labels = {}
for i = first_counts, #KEYS do labels[#labels + 1] = string.match(KEYS[i], '[^:]+$') end
local classes = #labels

if (redis.call('HGET', KEYS[1], 'version') or '') ~= ARGV[1] then
  return false
end

local function text(number)
  return string.format('%.0f', number)
end

-- The distinct tokens of both messages, in order, and what is added to each class's count.
local tokens, delta = {}, {}
local function plan(column, weight, joined)
  if column == 0 then return 0 end
  local sum = 0
  if weight ~= 0 then
    for token in string.gmatch(joined, '[^\n]+') do
      local row = delta[token]
      if not row then
        row = {}
        delta[token] = row
        tokens[#tokens + 1] = token
      end
      row[column] = (row[column] or 0) + weight
      sum = sum + weight
    end
  end
  return sum
end

local take, give = tonumber(ARGV[2]), tonumber(ARGV[5])
local taken = plan(take, -tonumber(ARGV[3]), ARGV[4])
local given = plan(give, tonumber(ARGV[6]), ARGV[7])

-- Read and write the counts of all touched tokens, a chunk at a time, and follow the vocabulary.
local resulting = {}
for column = 1, classes do resulting[column] = {} end
local vocabulary = 0
for first = 1, #tokens, CHUNK do
  local last = math.min(first + CHUNK - 1, #tokens)
  local before, after = {}, {}
  for column = 1, classes do
    local key = KEYS[first_counts + column - 1]
    local values = redis.call('HMGET', key, unpack(tokens, first, last))
    local set, delete = {}, {}
    for i = 1, #values do
      local token = tokens[first + i - 1]
      local old = tonumber(values[i] or 0)
      local change = delta[token][column]
      local new = old + (change or 0)
      resulting[column][first + i - 1] = text(new)
      if old > 0 then before[i] = true end
      if new > 0 then after[i] = true end
      if change and new == 0 then
        delete[#delete + 1] = token
      elseif change then
        set[#set + 1] = token
        set[#set + 1] = text(new)
      end
    end
    if #set > 0 then redis.call('HSET', key, unpack(set)) end
    if #delete > 0 then redis.call('HDEL', key, unpack(delete)) end
  end
  for i = 1, last - first + 1 do
    if after[i] and not before[i] then vocabulary = vocabulary + 1 end
    if before[i] and not after[i] then vocabulary = vocabulary - 1 end
  end
end

local function total(field, change)
  if change == 0 then
    return redis.call('HGET', KEYS[2], field) or '0'
  end
  local result = tonumber(redis.call('HGET', KEYS[2], field) or 0) + change
  if result == 0 then
    redis.call('HDEL', KEYS[2], field)
  else
    redis.call('HSET', KEYS[2], field, text(result))
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

local change = {'sequence', sequence, 'totals', table.concat(totals, ' '), 'tokens', table.concat(tokens, '\n')}
for column = 1, classes do
  change[#change + 1] = 'counts:' .. labels[column]
  change[#change + 1] = table.concat(resulting[column], ' ')
end
local id = redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[8], '*', unpack(change))

redis.call('DEL', KEYS[1])
if #ARGV > 9 then
  redis.call('HSET', KEYS[1], 'change', id, unpack(ARGV, 10))
  redis.call('EXPIRE', KEYS[1], ARGV[9])
end
return id
