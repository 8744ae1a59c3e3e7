-- Learn, relearn or unlearn some messages in one atomic step: all of them, or none.
--
-- Each lesson takes back the old ledger entry of a message and adds a new one; either of them may be missing. The
-- messages of one call are distinct. Returns the stream id of the change, which is one for all lessons. Where the
-- ledger holds another entry than the expected one of any message, nothing is changed, and the script returns for each
-- of these the number of its lesson, from 1, and the fields and values of that entry (an empty list = there is none).
-- An import refuses all lessons with an error, and so does a removal, until one that was killed is repeated.
--
-- A column is what one class was learned as, by people or automatically. People's columns have one vocabulary, the
-- automatic ones another. The totals name all columns that anything was learned in. The name of an automatic column ends
-- in its generation: in a former one nothing is changed, and a ledger entry of a former one is as good as none.
--
-- The caller has summed what the lessons add to each count. Counts stay below 2^53, so that Lua's numbers hold them
-- exactly. A count that reaches zero is deleted. No count is ever clamped: (+1,-1) and (-1,+1) must both give 0. The
-- change carries the resulting counts of the columns that it touched; the counts of the others are as they were. It
-- names the messages of its lessons. The sequence number grows by one for each lesson.
--
-- A sum is stored and sent like a token, but belongs neither to the totals nor to the vocabulary.
--
-- A prequential score begins with its time, by which it is sorted. The change names the scores that were removed
-- (gone), those that were added (come), and, where the limit removed older ones of a class, the oldest one that is left.

-- This is the one place that says what the keys and arguments mean. model/scripts.py packs them in this order.
local totals_key,
  changes_key,
  sequence_key,
  history_key,
  importing_key,
  ham_scores_key,  -- the prequential scores of ham
  spam_scores_key = unpack(KEYS, 1, 7)
-- The next keys are the counts of each column, and the ledger entry of each message.

local names,  -- the distinct names of tokens and then of sums to which the lessons add, each with a NUL behind it
  packed_tokens,  -- the tokens among them as the change has them, compressed
  joined_sums,  -- the sums among them, separated by line feeds
  name_count,  -- how many names there are
  token_count,  -- how many of them are tokens
  max_changes,  -- about how many changes stay in the change stream; after a batch, how many lessons
  max_history_records,  -- about how many records stay in the history
  max_prequential_scores,  -- how many prequential scores of ham and of spam stay
  ledger_seconds,  -- after how many seconds a new ledger entry expires
  column_count,  -- the number of columns to which the lessons add
  lesson_count = unpack(ARGV, 1, 11)  -- the number of lessons
-- The next arguments are those of each column, and then those of each lesson.

name_count, token_count = tonumber(name_count), tonumber(token_count)
column_count, lesson_count = tonumber(column_count), tonumber(lesson_count)
if redis.call('EXISTS', importing_key) == 1 then
  return redis.error_reply('IMPORTING lessons are refused until an import into this model or its removal ends; repeat one that was killed')
end
local total_of, learned_columns = {}, {}
local stored_totals = redis.call('HGETALL', totals_key)
for i = 1, #stored_totals, 2 do
  local field = stored_totals[i]
  local column = string.match(field, '^messages:(.+)') or string.match(field, '^tokens:(.+)')
  total_of[field] = stored_totals[i + 1]
  if column then learned_columns[column] = true end
end
local current_generation = total_of.generation or '0'

-- Returns the field with the size of the vocabulary that has this column; nil for a column of a former generation.
local function vocabulary_field(column)
  local generation = string.match(column, ':(%d+)$')
  if not generation then return 'vocabulary' end
  return generation == current_generation and 'vocabulary:auto' or nil
end

local columns, groups, next_argument = {}, {}, 12  -- a group: the columns with the same vocabulary
for i = 1, column_count do
  local name,  -- the name of the column
    additions,  -- what is added to the count of each name, as an array of MessagePack ('' = to none)
    messages,  -- by how much the number of messages grows
    weight = unpack(ARGV, next_argument, next_argument + 3)  -- by how much the summed weight of the tokens grows
  next_argument = next_argument + 4
  local field = vocabulary_field(name)
  if field then
    local group = groups[field]
    if not group then
      group = {field = field, vocabulary = 0, touched = {}, untouched = {}}
      groups[field], groups[#groups + 1] = group, group
    end
    local column = {
      name = name,
      counts_key = KEYS[7 + i],
      additions = additions ~= '' and cmsgpack.unpack(additions) or nil,
      messages = tonumber(messages),
      weight = tonumber(weight),
      resulting = {},
    }
    columns[#columns + 1] = column
    if column.additions then
      group.touched[#group.touched + 1] = column
      learned_columns[name] = nil
    end
  end
end
-- The keys of the counts of a model differ in the column at their end.
local counts_prefix = string.sub(totals_key, 1, -#'totals' - 1) .. 'counts:'
for name in pairs(learned_columns) do
  local group = groups[vocabulary_field(name) or '']
  if group then group.untouched[#group.untouched + 1] = counts_prefix .. name end
end
-- What happens to the prequential scores: words and prequential scores in turn.
local scores_of = {
  ham = {label = 'ham', key = ham_scores_key, changes = {}},
  spam = {label = 'spam', key = spam_scores_key, changes = {}},
}

local lessons, conflicts = {}, {}
for i = 1, lesson_count do
  local expected_version,  -- the version that the ledger entry must have now ('' = there must be no entry)
    old_label,  -- the label of the old entry
    old_prequential_score,  -- the prequential score to remove ('' = none)
    new_label,  -- the label of the new entry
    new_prequential_score,  -- the prequential score to add ('' = none)
    history_length,  -- the number of names and values of the history's record (0 = there is none)
    entry_length = unpack(ARGV, next_argument, next_argument + 6)  -- those of the new entry (0 = delete the entry)
  local history_start = next_argument + 7
  local entry_start = history_start + history_length
  next_argument = entry_start + entry_length
  -- The names and values of the record, then those of the entry, follow the arguments of each lesson.
  local entry_key = KEYS[7 + column_count + i]
  local version, column = unpack(redis.call('HMGET', entry_key, 'version', 'label'))
  local generation = string.match(column or '', ':(%d+)$')
  local is_there = version and (not generation or generation == current_generation)
  if (is_there and version or '') ~= expected_version then
    conflicts[#conflicts + 1] = {i, is_there and redis.call('HGETALL', entry_key) or {}}
  end
  lessons[i] = {
    entry_key = entry_key,
    message_key = string.match(entry_key, '[^:]+$'),
    has_old_entry = expected_version ~= '',
    old_scores = scores_of[old_label],
    old_prequential_score = old_prequential_score,
    new_scores = scores_of[new_label],
    new_prequential_score = new_prequential_score,
    history_start = history_start,
    entry_start = entry_start,
    entry_end = next_argument - 1,
  }
end
if #conflicts > 0 then return conflicts end

local CHUNK = 1000  -- unpack() is limited by Lua's stack, about 8,000 values

-- A number becomes text here, once: table.concat writes only 14 digits of a number. "%d" is faster than "%.0f",
-- but its argument is a C long, which has only 32 bits on some machines.
local format = string.format
local function text(number)
  if number < 2147483648 and number > -2147483648 then return format('%d', number) end
  return format('%.0f', number)
end

-- Returns by how much the vocabulary grows, given the tokens that the touched columns begin (1) or cease (-1) to have:
-- a token that an untouched one, under these keys, has was in the vocabulary before, and stays there.
local function vocabulary_growth(untouched, tokens, growth)
  if #tokens == 0 then return 0 end
  local is_elsewhere, sum = {}, 0
  for _, counts_key in ipairs(untouched) do
    local counts = redis.call('HMGET', counts_key, unpack(tokens))
    for i = 1, #tokens do
      if counts[i] and tonumber(counts[i]) > 0 then is_elsewhere[i] = true end
    end
  end
  for i = 1, #tokens do
    if not is_elsewhere[i] then sum = sum + growth[i] end
  end
  return sum
end

local total_fields, amounts = {}, {}
for _, column in ipairs(columns) do
  total_fields[#total_fields + 1], amounts[#amounts + 1] = 'messages:' .. column.name, column.messages
  total_fields[#total_fields + 1], amounts[#amounts + 1] = 'tokens:' .. column.name, column.weight
end
for _, group in ipairs(groups) do total_fields[#total_fields + 1] = group.field end
local totals = {}
for i, field in ipairs(total_fields) do totals[i] = (total_of[field] or 0) + 0 end

-- From here on Redis refuses nothing. The ledger entries were read as hashes.
check_writes(totals_key, 'hash', 'HSET', 'HDEL', 'HGETALL')
for _, column in ipairs(columns) do check_writes(column.counts_key, 'hash', 'HMGET', 'HSET', 'HDEL') end
for _, group in ipairs(groups) do
  for _, counts_key in ipairs(group.untouched) do check_writes(counts_key, 'hash', 'HMGET') end
end
for _, scores in pairs(scores_of) do
  check_writes(scores.key, 'zset', 'ZADD', 'ZREM', 'ZREMRANGEBYRANK', 'ZRANGE')
end
check_writes(sequence_key, 'integer', 'INCRBY')
check_writes(changes_key, 'stream', 'XADD', 'XREVRANGE', 'XRANGE')
check_writes(history_key, 'stream', 'XADD')
check_writes(lessons[1].entry_key, 'hash', 'HGETALL', 'DEL', 'HSET', 'EXPIRE')

-- Read and write the counts in the touched columns, a chunk of names at a time, and follow the vocabulary: which of
-- the tokens some touched column has afterwards and none had before, or the other way round. This loop is most of the
-- script's time: it adds 0 to a string to make it a number, since that is faster than tonumber.
local texts = {}  -- the texts of numbers: many tokens have the same count
local function add_to_columns(group, before_first, size, name_list, writes)
  local touches_several = #group.touched > 1
  local was_present, is_present, changed_tokens, growth = {}, {}, {}, {}
  local function note_presence(i, before, after)
    if before ~= after and before_first + i <= token_count then
      changed_tokens[#changed_tokens + 1] = name_list[i]
      growth[#growth + 1] = after and 1 or -1
    end
  end
  for _, column in ipairs(group.touched) do
    local key, additions, resulting = column.counts_key, column.additions, column.resulting
    local counts = redis.call('HMGET', key, unpack(name_list))
    local to_set, set_length, to_delete = {}, 0, {}
    for i = 1, size do
      local name, stored, amount = name_list[i], counts[i], additions[before_first + i]
      local before = stored and stored + 0 or 0
      local after = before + amount
      if amount ~= 0 then
        local count = texts[after]
        if not count then
          count = text(after)
          texts[after] = count
        end
        resulting[before_first + i] = count
        if after == 0 then
          to_delete[#to_delete + 1] = name
        else
          to_set[set_length + 1], to_set[set_length + 2] = name, count
          set_length = set_length + 2
        end
      else
        resulting[before_first + i] = stored or '0'
      end
      if touches_several then
        was_present[i], is_present[i] = was_present[i] or before > 0, is_present[i] or after > 0
      elseif (before > 0) ~= (after > 0) then
        note_presence(i, before > 0, after > 0)
      end
    end
    -- These come first: a Redis that is out of memory refuses them, and with them the script.
    if set_length > 0 then table.insert(writes, 1, {'HSET', key, to_set}) end
    if #to_delete > 0 then writes[#writes + 1] = {'HDEL', key, to_delete} end
  end
  if touches_several then
    for i = 1, size do note_presence(i, was_present[i], is_present[i]) end
  end
  group.vocabulary = group.vocabulary + vocabulary_growth(group.untouched, changed_tokens, growth)
end
local position = 1
for before_first = 0, name_count - 1, CHUNK do
  local size = math.min(CHUNK, name_count - before_first)
  local name_list = {struct.unpack(string.rep('s', size), names, position)}
  position = table.remove(name_list)
  local writes = {}  -- a command, the key and the command's other arguments
  for _, group in ipairs(groups) do add_to_columns(group, before_first, size, name_list, writes) end
  for _, write in ipairs(writes) do redis.call(write[1], write[2], unpack(write[3])) end
end

-- Add to the totals; a field that reaches zero is deleted.
for _, group in ipairs(groups) do amounts[#amounts + 1] = group.vocabulary end
local totals_to_set = {}
for i, field in ipairs(total_fields) do
  local result = totals[i] + amounts[i]
  if result ~= 0 then
    totals_to_set[#totals_to_set + 1], totals_to_set[#totals_to_set + 2] = field, text(result)
  elseif amounts[i] ~= 0 then
    redis.call('HDEL', totals_key, field)
  end
end
if #totals_to_set > 0 then redis.call('HSET', totals_key, unpack(totals_to_set)) end

-- Remove and add prequential scores in the order of the lessons: the limit may remove one before another goes.
local function note_prequential_score(scores, word, prequential_score)
  scores.changes[#scores.changes + 1] = word
  scores.changes[#scores.changes + 1] = prequential_score
end
for _, lesson in ipairs(lessons) do
  local old_scores, new_scores = lesson.old_scores, lesson.new_scores
  if old_scores and lesson.old_prequential_score ~= '' then
    if redis.call('ZREM', old_scores.key, lesson.old_prequential_score) == 1 then
      note_prequential_score(old_scores, 'gone', lesson.old_prequential_score)
    end
  end
  if new_scores and lesson.new_prequential_score ~= '' then
    local key, prequential_score = new_scores.key, lesson.new_prequential_score
    redis.call('ZADD', key, string.match(prequential_score, '^%S+'), prequential_score)
    note_prequential_score(new_scores, 'come', prequential_score)
    if redis.call('ZREMRANGEBYRANK', key, 0, -max_prequential_scores - 1) > 0 then
      note_prequential_score(new_scores, 'oldest', redis.call('ZRANGE', key, 0, 0)[1])
    end
  end
end

local sequence = redis.call('INCRBY', sequence_key, lesson_count)
local all_totals = table.concat(redis.call('HGETALL', totals_key), ' ')
local change = {'sequence', sequence, 'totals', all_totals, 'names', packed_tokens, 'sums', joined_sums}
local function add_to_change(field, value)
  change[#change + 1] = field
  change[#change + 1] = value
end
for _, column in ipairs(columns) do
  if column.additions then add_to_change('counts:' .. column.name, table.concat(column.resulting, ' ')) end
end
for _, scores in pairs(scores_of) do
  if #scores.changes > 0 then add_to_change('first:' .. scores.label, table.concat(scores.changes, '\n')) end
end
local message_keys = {}
for i, lesson in ipairs(lessons) do message_keys[i] = lesson.message_key end
add_to_change('messages', table.concat(message_keys, ' '))
local last_change = redis.call('XREVRANGE', changes_key, '+', '-', 'COUNT', 1)[1]
add_to_change('predecessor', last_change and last_change[1] or '0-0')
-- Models that share a stream have names behind its prefix.
local model_name = string.sub(totals_key, #changes_key - #'changes' + 1, -#':totals' - 1)
if model_name ~= '' then add_to_change('model', model_name) end
local trimming, precision, threshold = 'MAXLEN', '~', max_changes
if lesson_count > 1 then
  add_to_change('lessons', lesson_count)
  -- A batch is as long as its lessons. So the stream keeps as many lessons as changes, not as many batches.
  local start = '-'
  trimming, precision, threshold = 'MINID', '=', '0'
  for _ = 0, 2 * lesson_count do
    local oldest = redis.call('XRANGE', changes_key, start, '+', 'COUNT', 1)[1]
    if not oldest then break end
    threshold, start = oldest[1], '(' .. oldest[1]
    if tonumber(oldest[2][2]) > sequence - max_changes then break end  -- the sequence number is the first field
  end
end
local id = redis.call('XADD', changes_key, trimming, precision, threshold, '*', unpack(change))

-- The record keeps the whole entry that is replaced.
for _, lesson in ipairs(lessons) do
  local entry_key, entry_start, entry_end = lesson.entry_key, lesson.entry_start, lesson.entry_end
  local record = {'id', lesson.message_key, unpack(ARGV, lesson.history_start, entry_start - 1)}
  if lesson.has_old_entry then
    local former_entry = redis.call('HGETALL', entry_key)
    for i = 1, #former_entry, 2 do
      record[#record + 1] = 'former:' .. former_entry[i]
      record[#record + 1] = former_entry[i + 1]
    end
    redis.call('DEL', entry_key)
  end
  if lesson.history_start < entry_start then
    redis.call('XADD', history_key, 'MAXLEN', '~', max_history_records, '*', unpack(record))
  end
  if entry_start <= entry_end then
    redis.call('HSET', entry_key, 'change', id, unpack(ARGV, entry_start, entry_end))
    redis.call('EXPIRE', entry_key, ledger_seconds)
  end
end
return id
