-- Forget tokens whole, or only those of their counts that are below zero, in one atomic step.
--
-- KEYS: totals, changes, sequence, then the counts of each class.
-- ARGV: 1 the vocabulary at which to stop ("" = forget only counts below zero)
--       2 length to which the change stream is trimmed
--       3 tokens, separated by line feeds   4... for each class their counts when they were chosen, separated by spaces
-- A token one of whose counts is another by now was taught meanwhile: it is left as it is. So a repeat after a lost
-- reply, or a second daemon that chose the same tokens, forgets nothing twice. Returns the change's stream id and the
-- number of tokens forgotten, or false where nothing was to be forgotten: then nothing was changed.
--
-- The totals stay the sums of the counts. The first write is a HDEL, which a Redis that is out of memory allows, and
-- after a script's first write it allows the others too.

local first_counts = 4
local least, tokens, columns = tonumber(ARGV[1]), {}, {}
for token in string.gmatch(ARGV[3], '[^\n]+') do tokens[#tokens + 1] = token end
for key = first_counts, #KEYS do
  local column = {label = string.match(KEYS[key], '[^:]+$'), key = KEYS[key], chosen = {}}
  column.delete, column.resulting, column.sum = {}, {}, 0
  for count in string.gmatch(ARGV[key], '%S+') do column.chosen[#column.chosen + 1] = count end
  column.stored = redis.call('HMGET', column.key, unpack(tokens))
  columns[#columns + 1] = column
end

-- table.concat writes 14 digits of a number, "%.0f" all of them.
local function text(number) return string.format('%.0f', number) end

local vocabulary = tonumber(redis.call('HGET', KEYS[1], 'vocabulary') or 0)

local function to_forget(i)
  local known, below = false, false
  for _, column in ipairs(columns) do
    if (column.stored[i] or '0') ~= column.chosen[i] then return false end
    known = known or tonumber(column.chosen[i]) > 0
    below = below or tonumber(column.chosen[i]) < 0
  end
  if not least then return below end
  return known and vocabulary > least
end

local forgotten, gone = {}, 0
for i, token in ipairs(tokens) do
  if to_forget(i) then
    forgotten[#forgotten + 1] = token
    if least then
      vocabulary = vocabulary - 1
      gone = gone + 1
    end
    for _, column in ipairs(columns) do
      local count = tonumber(column.chosen[i])
      local goes = count ~= 0 and (least or count < 0)
      if goes then
        column.delete[#column.delete + 1] = token
        column.sum = column.sum + count
      end
      column.resulting[#column.resulting + 1] = goes and '0' or column.chosen[i]
    end
  end
end
if #forgotten == 0 then return false end

for _, column in ipairs(columns) do
  if #column.delete > 0 then redis.call('HDEL', column.key, unpack(column.delete)) end
end

local function total(field, fall)
  local result = redis.call('HINCRBY', KEYS[1], field, text(0 - fall))  -- not -fall: of 0 that is "-0"
  if result == 0 then redis.call('HDEL', KEYS[1], field) end
  return text(result)
end

local totals = {}
for _, column in ipairs(columns) do
  totals[#totals + 1] = redis.call('HGET', KEYS[1], 'messages:' .. column.label) or '0'
  totals[#totals + 1] = total('tokens:' .. column.label, column.sum)
end
totals[#totals + 1] = total('vocabulary', gone)

local change = {'sequence', redis.call('INCR', KEYS[3]), 'totals', table.concat(totals, ' '), 'tokens'}
change[#change + 1] = table.concat(forgotten, '\n')
for _, column in ipairs(columns) do
  change[#change + 1] = 'counts:' .. column.label
  change[#change + 1] = table.concat(column.resulting, ' ')
end
return {redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', unpack(change)), #forgotten}
