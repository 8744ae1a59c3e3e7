-- Remove tokens from a model, or only those of their counts that are below zero, in one atomic step.
--
-- KEYS: totals, changes, sequence, then the counts of each column that has the vocabulary.
-- ARGV: 1 the vocabulary size at which to stop ('' = remove only counts below zero)
--       2 about how many changes stay in the change stream
--       3 the tokens, separated by line feeds
--       4 the field of the totals that has the size of the vocabulary
--       5 the tokens as a change has them, compressed
--       then for each column its name, and the counts of the tokens when they were chosen, separated by spaces
-- A token that has another count by now was learned or unlearned meanwhile and stays as it is. Therefore neither a
-- repetition after a lost reply nor a second daemon that chose the same tokens removes anything twice. Returns the
-- stream id of the change and the number of tokens, or false where nothing was to be removed, or where the vocabulary has
-- one more column by now: nothing was changed then.
--
-- The totals stay the sums of the counts. The first write and the first check are a HDEL: a Redis that is out of memory
-- allows it, and then the others too.

local totals_key, changes_key, sequence_key = unpack(KEYS, 1, 3)
local stop_size, max_changes, joined_tokens, vocabulary_field, packed_names = unpack(ARGV, 1, 5)
stop_size = tonumber(stop_size)

local tokens, columns, is_given = {}, {}, {}
for token in string.gmatch(joined_tokens, '[^\n]+') do tokens[#tokens + 1] = token end
for i = 4, #KEYS do
  local column = {name = ARGV[2 * i - 2], key = KEYS[i], counts = {}}
  column.to_delete, column.resulting, column.removed = {}, {}, 0
  for count in string.gmatch(ARGV[2 * i - 1], '%S+') do column.counts[#column.counts + 1] = count end
  column.stored = redis.call('HMGET', column.key, unpack(tokens))
  columns[#columns + 1], is_given[column.name] = column, true
end
local stored_totals = redis.call('HGETALL', totals_key)
for i = 1, #stored_totals, 2 do
  local name = string.match(stored_totals[i], '^tokens:(.+)')
  local is_automatic = name and string.find(name, ':', 1, true) ~= nil
  if name and is_automatic == (vocabulary_field ~= 'vocabulary') and not is_given[name] then return false end
end

-- table.concat writes only 14 digits of a number, "%.0f" writes all of them.
local function text(number) return string.format('%.0f', number) end

local vocabulary = tonumber(redis.call('HGET', totals_key, vocabulary_field) or 0)

local function is_to_be_removed(i)
  local is_in_vocabulary, is_below_zero = false, false
  for _, column in ipairs(columns) do
    if (column.stored[i] or '0') ~= column.counts[i] then return false end
    is_in_vocabulary = is_in_vocabulary or tonumber(column.counts[i]) > 0
    is_below_zero = is_below_zero or tonumber(column.counts[i]) < 0
  end
  if not stop_size then return is_below_zero end
  return is_in_vocabulary and vocabulary > stop_size
end

local removed, vocabulary_loss = 0, 0
for i, token in ipairs(tokens) do
  local is_token_removed = is_to_be_removed(i)
  if is_token_removed then
    removed = removed + 1
    if stop_size then
      vocabulary = vocabulary - 1
      vocabulary_loss = vocabulary_loss + 1
    end
  end
  for _, column in ipairs(columns) do
    local count = tonumber(column.counts[i])
    local is_removed = is_token_removed and count ~= 0 and (stop_size or count < 0)
    if is_removed then
      column.to_delete[#column.to_delete + 1] = token
      column.removed = column.removed + count
    end
    column.resulting[i] = is_removed and '0' or column.stored[i] or '0'
  end
end
if removed == 0 then return false end

local changed_totals = {}
local function subtract_from_total(field, amount)
  if amount ~= 0 then changed_totals[field] = (redis.call('HGET', totals_key, field) or 0) - amount end
end
for _, column in ipairs(columns) do subtract_from_total('tokens:' .. column.name, column.removed) end
subtract_from_total(vocabulary_field, vocabulary_loss)

for _, column in ipairs(columns) do check_writes(column.key, 'hash', 'HDEL') end
check_writes(totals_key, 'hash', 'HDEL', 'HSET', 'HGETALL')
check_writes(sequence_key, 'integer', 'INCRBY')
check_writes(changes_key, 'stream', 'XADD', 'XREVRANGE')

for _, column in ipairs(columns) do
  if #column.to_delete > 0 then redis.call('HDEL', column.key, unpack(column.to_delete)) end
end
for field, result in pairs(changed_totals) do  -- a field that reaches zero is deleted
  if result == 0 then redis.call('HDEL', totals_key, field) else redis.call('HSET', totals_key, field, text(result)) end
end

local sequence = redis.call('INCRBY', sequence_key, 1)
local last_change = redis.call('XREVRANGE', changes_key, '+', '-', 'COUNT', 1)[1]
local predecessor = last_change and last_change[1] or '0-0'
local all_totals = table.concat(redis.call('HGETALL', totals_key), ' ')
local change = {'sequence', sequence, 'totals', all_totals, 'names', packed_names, 'predecessor', predecessor}
for _, column in ipairs(columns) do
  change[#change + 1] = 'counts:' .. column.name
  change[#change + 1] = table.concat(column.resulting, ' ')
end
return {redis.call('XADD', changes_key, 'MAXLEN', '~', max_changes, '*', unpack(change)), removed}
