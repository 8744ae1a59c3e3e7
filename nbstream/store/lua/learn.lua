-- Learn, relearn or unlearn one message in one atomic step.
--
-- A lesson takes back the message's old ledger entry and adds the new one; either of them may be missing. Returns the
-- stream id of the change. Where the ledger holds another entry than the expected one, nothing is changed, and the
-- script returns the fields and values of that entry (an empty list = there is no entry).
--
-- Counts stay below 2^53, so that Lua's numbers hold them exactly. A count that reaches zero is deleted. No count is
-- ever clamped: (+1,-1) and (-1,+1) must both give 0. The change carries the resulting counts of the classes that it
-- touched; the counts of the other classes are as they were.
--
-- A sum is stored and sent like a token, but belongs neither to the totals nor to the vocabulary.
--
-- A first score begins with its time, by which it is sorted. The change names the first score that was removed, the
-- one that was added, and, where the limit removed older ones of its class, the oldest one that is left.

-- This is the one place that says what the keys and arguments mean. learn_script.py packs them under the same names
-- and in the same order, and a test compares the two.
local entry_key,  -- the message's ledger entry
  totals_key,
  changes_key,
  sequence_key,
  history_key = unpack(KEYS)
-- The last keys are the counts of each class, then the first scores of each class.

local expected_version,  -- the version that the ledger entry must have now ('' = there must be no entry)
  old_column,  -- the class from which the old entry is taken back, as a column from 1 (0 = there is no old entry)
  old_weight,  -- the weight that each of its tokens was given
  old_tokens,  -- its distinct tokens, separated by line feeds
  old_sums,  -- its sums: names and amounts in turn, separated by spaces
  old_first_score,  -- the first score to remove ('' = none)
  new_column,  -- the same of the new entry, which is added
  new_weight,
  new_tokens,
  new_sums,
  new_first_score,  -- the first score to add ('' = none)
  max_changes,  -- about how many changes stay in the change stream
  max_history_records,  -- about how many records stay in the history
  max_first_scores,  -- how many first scores of each class stay
  ledger_seconds,  -- after how many seconds the new ledger entry expires
  class_count,  -- the number of classes
  history_length,  -- the number of names and values of the history's record
  entry_length = unpack(ARGV)  -- the number of names and values of the new ledger entry (0 = delete the entry)
-- The last arguments are the names and values of the history's record, then those of the new ledger entry.

old_column, old_weight = tonumber(old_column), tonumber(old_weight)
new_column, new_weight = tonumber(new_column), tonumber(new_weight)
class_count = tonumber(class_count)
local entry_start = #ARGV - entry_length + 1
local history_start = entry_start - history_length

local labels, counts_keys, first_scores_keys = {}, {}, {}
for column = 1, class_count do
  counts_keys[column] = KEYS[#KEYS - 2 * class_count + column]
  first_scores_keys[column] = KEYS[#KEYS - class_count + column]
  labels[column] = string.match(counts_keys[column], '[^:]+$')
end

if (redis.call('HGET', entry_key, 'version') or '') ~= expected_version then
  return redis.call('HGETALL', entry_key)
end

local CHUNK = 1000  -- unpack() is limited by Lua's stack, about 8,000 values

-- A number becomes text here, once: table.concat writes only 14 digits of a number. "%d" is faster than "%.0f" (see
-- docs/experiments.md), but its argument is a C long, which has only 32 bits on some machines.
local format = string.format
local function text(number)
  if number < 2147483648 and number > -2147483648 then return format('%d', number) end
  return format('%.0f', number)
end

-- The distinct tokens and sums of both entries (names), and for each touched class what is added to the count of each
-- name, by the index of the name. The tokens of one entry are distinct, and no sum has the name of a token; therefore
-- only the names of the other entry are searched (index_of).
local names, name_count, index_of, is_sum = {}, 0, {}, {}
local additions, touched_columns = {}, {}
local joined_tokens, joined_count = '', 0  -- the tokens of the first entry as they came, and how many these are

local function add_name(name)
  name_count = name_count + 1
  names[name_count] = name
  return name_count
end

-- Plan to add the entry, or to take it back (sign -1). Returns what its tokens add to the total weight of its class.
local function plan(column, sign, weight, tokens, sums)
  if column == 0 or (weight == 0 and sums == '') then return 0 end
  local added, total = additions[column] or {}, 0
  if not additions[column] then touched_columns[#touched_columns + 1] = column end
  additions[column] = added
  if weight ~= 0 then
    local amount, is_second = sign * weight, next(index_of) ~= nil
    for token in string.gmatch(tokens, '[^\n]+') do
      local i = is_second and index_of[token] or add_name(token)
      added[i] = (added[i] or 0) + amount
      total = total + amount
    end
    if not is_second then joined_tokens, joined_count = tokens, name_count end
  end
  for name, amount in string.gmatch(sums, '(%S+) (%S+)') do
    local i = index_of[name] or add_name(name)
    added[i] = (added[i] or 0) + sign * tonumber(amount)
    is_sum[name] = true
  end
  if new_column ~= 0 and sign < 0 then
    for i = 1, name_count do index_of[names[i]] = i end
  end
  return total
end

local old_total = plan(old_column, -1, old_weight, old_tokens, old_sums)
local new_total = plan(new_column, 1, new_weight, new_tokens, new_sums)

-- Returns by how much the vocabulary grows, given the tokens that the touched classes begin (1) or cease (-1) to have:
-- a token that another class has was in the vocabulary before, and stays there.
local function vocabulary_growth(tokens, growth)
  if #tokens == 0 then return 0 end
  local is_elsewhere, sum = {}, 0
  for column = 1, class_count do
    if not additions[column] then
      local counts = redis.call('HMGET', counts_keys[column], unpack(tokens))
      for i = 1, #tokens do
        if counts[i] and tonumber(counts[i]) > 0 then is_elsewhere[i] = true end
      end
    end
  end
  for i = 1, #tokens do
    if not is_elsewhere[i] then sum = sum + growth[i] end
  end
  return sum
end

-- Read and write the counts in the touched classes, a chunk of names at a time, and follow the vocabulary: which of
-- the tokens some touched class has afterwards and none had before, or the other way round. This loop is most of the
-- script's time: it adds 0 to a string to make it a number, since that is faster than tonumber.
local resulting, vocabulary, touches_several = {}, 0, #touched_columns > 1
local texts = {}  -- the texts of numbers: all tokens that are new have the same count
for _, column in ipairs(touched_columns) do resulting[column] = {} end
for first = 1, name_count, CHUNK do
  local last = math.min(first + CHUNK - 1, name_count)
  local was_present, is_present, changed_tokens, growth = {}, {}, {}, {}
  local function note_presence(name, before, after)
    if before ~= after and not is_sum[name] then
      changed_tokens[#changed_tokens + 1] = name
      growth[#growth + 1] = after and 1 or -1
    end
  end
  for _, column in ipairs(touched_columns) do
    local key, added, result = counts_keys[column], additions[column], resulting[column]
    local counts = redis.call('HMGET', key, unpack(names, first, last))
    local to_set, set_length, to_delete = {}, 0, {}
    for i = first, last do
      local name, stored, amount = names[i], counts[i - first + 1], added[i]
      local before = stored and stored + 0 or 0
      local after = amount and before + amount or before
      if amount then
        local count = before == 0 and texts[after] or text(after)
        if before == 0 then texts[after] = count end
        result[i] = count
        if after == 0 then
          to_delete[#to_delete + 1] = name
        else
          to_set[set_length + 1], to_set[set_length + 2] = name, count
          set_length = set_length + 2
        end
      else
        result[i] = stored or '0'
      end
      if touches_several then
        was_present[i], is_present[i] = was_present[i] or before > 0, is_present[i] or after > 0
      elseif (before > 0) ~= (after > 0) then
        note_presence(name, before > 0, after > 0)
      end
    end
    if set_length > 0 then redis.call('HSET', key, unpack(to_set)) end
    if #to_delete > 0 then redis.call('HDEL', key, unpack(to_delete)) end
  end
  if touches_several then
    for i = first, last do note_presence(names[i], was_present[i], is_present[i]) end
  end
  vocabulary = vocabulary + vocabulary_growth(changed_tokens, growth)
end

-- Add to a field of the totals; a field that reaches zero is deleted. Returns the result as text.
local function add_to_total(field, amount)
  if amount == 0 then return redis.call('HGET', totals_key, field) or '0' end
  local result = tonumber(redis.call('HGET', totals_key, field) or 0) + amount
  if result == 0 then
    redis.call('HDEL', totals_key, field)
  else
    redis.call('HSET', totals_key, field, result)
  end
  return text(result)
end

local totals = {}
for column = 1, class_count do
  local messages, weight = 0, 0
  if column == old_column then messages, weight = messages - 1, weight + old_total end
  if column == new_column then messages, weight = messages + 1, weight + new_total end
  totals[#totals + 1] = add_to_total('messages:' .. labels[column], messages)
  totals[#totals + 1] = add_to_total('tokens:' .. labels[column], weight)
end
totals[#totals + 1] = add_to_total('vocabulary', vocabulary)

local sequence = redis.call('INCR', sequence_key)

if joined_count == 0 or name_count > joined_count then
  joined_tokens = joined_tokens
    .. (joined_count > 0 and '\n' or '')
    .. table.concat(names, '\n', joined_count + 1)
end
local change = {'sequence', sequence, 'totals', table.concat(totals, ' '), 'tokens', joined_tokens}
local function add_to_change(field, value)
  change[#change + 1] = field
  change[#change + 1] = value
end
for _, column in ipairs(touched_columns) do
  add_to_change('counts:' .. labels[column], table.concat(resulting[column], ' '))
end

if old_column ~= 0 and old_first_score ~= '' then
  if redis.call('ZREM', first_scores_keys[old_column], old_first_score) == 1 then
    add_to_change('first:gone:' .. labels[old_column], old_first_score)
  end
end
if new_column ~= 0 and new_first_score ~= '' then
  local key, label = first_scores_keys[new_column], labels[new_column]
  redis.call('ZADD', key, string.match(new_first_score, '^%S+'), new_first_score)
  add_to_change('first:come:' .. label, new_first_score)
  if redis.call('ZREMRANGEBYRANK', key, 0, -max_first_scores - 1) > 0 then
    add_to_change('first:oldest:' .. label, redis.call('ZRANGE', key, 0, 0)[1])
  end
end
local id = redis.call('XADD', changes_key, 'MAXLEN', '~', max_changes, '*', unpack(change))

-- The record keeps the whole entry that is replaced.
local message_key = string.match(entry_key, '[^:]+$')
local record = {'id', message_key, unpack(ARGV, history_start, entry_start - 1)}
local former_entry = redis.call('HGETALL', entry_key)
for i = 1, #former_entry, 2 do
  record[#record + 1] = 'former:' .. former_entry[i]
  record[#record + 1] = former_entry[i + 1]
end
redis.call('XADD', history_key, 'MAXLEN', '~', max_history_records, '*', unpack(record))

redis.call('DEL', entry_key)
if entry_start <= #ARGV then
  redis.call('HSET', entry_key, 'change', id, unpack(ARGV, entry_start))
  redis.call('EXPIRE', entry_key, ledger_seconds)
end
return id
