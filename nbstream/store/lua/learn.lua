-- Learn, relearn or unlearn some messages in one atomic step: all of them, or none.
--
-- Each lesson takes back the old ledger entry of a message and adds a new one; either of them may be missing. The
-- messages of one call are distinct. Returns the stream id of the change, which is one for all lessons. Where the
-- ledger holds another entry than the expected one of any message, nothing is changed, and the script returns for each
-- of these the number of its lesson, from 1, and the fields and values of that entry (an empty list = there is none).
-- The same holds where the autolearn layer has a message, or may have it since its epoch is another one. An import
-- refuses all lessons with an error: the key expires soon after an import that was killed.
--
-- The caller has summed what the lessons add to each count. Counts stay below 2^53, so that Lua's numbers hold them
-- exactly. A count that reaches zero is deleted. No count is ever clamped: (+1,-1) and (-1,+1) must both give 0. The
-- change carries the resulting counts of the classes that it touched; the counts of the other classes are as they
-- were. The sequence number grows by one for each lesson.
--
-- A sum is stored and sent like a token, but belongs neither to the totals nor to the vocabulary.
--
-- A prequential score begins with its time, by which it is sorted. The change names the scores that were removed
-- (gone), those that were added (come), and, where the limit removed older ones of a class, the oldest one that is left.

-- This is the one place that says what the keys and arguments mean. model/scripts.py packs them under the same names
-- and in the same order, and a test compares the two.
local totals_key,
  changes_key,
  sequence_key,
  history_key,
  importing_key = unpack(KEYS, 1, 5)
-- The next keys are the counts and the prequential scores of each class, and the ledger entry of each message. Where
-- the layer must not have the messages, its ledger entry of each message and the key of its epoch follow.

local names,  -- the distinct names of tokens and then of sums to which the lessons add, each with a NUL behind it
  packed_names,  -- the names as the change has them, compressed
  name_count,  -- how many names there are
  token_count,  -- how many of them are tokens
  max_changes,  -- about how many changes stay in the change stream; after a batch, how many lessons
  max_history_records,  -- about how many records stay in the history
  max_prequential_scores,  -- how many prequential scores of each class stay
  ledger_seconds,  -- after how many seconds a new ledger entry expires
  class_count,  -- the number of classes
  lesson_count,  -- the number of lessons
  layer_epoch = unpack(ARGV, 1, 11)  -- the epoch that the layer must have ('' = it does not matter)
-- The next arguments are those of each class, and then those of each lesson.

name_count, token_count = tonumber(name_count), tonumber(token_count)
class_count, lesson_count = tonumber(class_count), tonumber(lesson_count)
if redis.call('EXISTS', importing_key) == 1 then
  return redis.error_reply('IMPORTING lessons are refused until an import into this model ends; repeat one that was killed')
end
local layer_keys = layer_epoch ~= '' and lesson_count + 1 or 0
local first_entry_key = #KEYS - layer_keys - lesson_count + 1
local is_other_epoch = layer_keys > 0 and (redis.call('GET', KEYS[#KEYS]) or '0') ~= layer_epoch

local classes, next_argument = {}, 12
for column = 1, class_count do
  local additions,  -- what is added to the count of each name, as an array of MessagePack ('' = to none)
    messages,  -- by how much the number of messages grows
    weight = unpack(ARGV, next_argument, next_argument + 2)  -- by how much the summed weight of the tokens grows
  next_argument = next_argument + 3
  local counts_key = KEYS[first_entry_key - 2 * class_count + column - 1]
  classes[column] = {
    label = string.match(counts_key, '[^:]+$'),
    counts_key = counts_key,
    prequential_scores_key = KEYS[first_entry_key - class_count + column - 1],
    additions = additions ~= '' and cmsgpack.unpack(additions) or nil,
    messages = tonumber(messages),
    weight = tonumber(weight),
    resulting = {},
    prequential_scores = {},  -- what happened to them: words and prequential scores in turn
  }
end

local lessons, conflicts = {}, {}
for i = 1, lesson_count do
  local expected_version,  -- the version that the ledger entry must have now ('' = there must be no entry)
    old_column,  -- the class of the old entry, as a column from 1 (0 = there is no old entry)
    old_prequential_score,  -- the prequential score to remove ('' = none)
    new_column,  -- the class of the new entry
    new_prequential_score,  -- the prequential score to add ('' = none)
    history_length,  -- the number of names and values of the history's record
    entry_length = unpack(ARGV, next_argument, next_argument + 6)  -- those of the new entry (0 = delete the entry)
  local history_start = next_argument + 7
  local entry_start = history_start + history_length
  next_argument = entry_start + entry_length
  -- The names and values of the record, then those of the entry, follow the arguments of each lesson.
  local entry_key = KEYS[first_entry_key + i - 1]
  local is_in_layer = layer_keys > 0 and redis.call('EXISTS', KEYS[first_entry_key + lesson_count + i - 1]) == 1
  local version = redis.call('HGET', entry_key, 'version') or ''
  if version ~= expected_version or is_in_layer or is_other_epoch then
    conflicts[#conflicts + 1] = {i, redis.call('HGETALL', entry_key)}
  end
  lessons[i] = {
    entry_key = entry_key,
    has_old_entry = expected_version ~= '',
    old_class = classes[tonumber(old_column)],
    old_prequential_score = old_prequential_score,
    new_class = classes[tonumber(new_column)],
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

local touched_classes, untouched_classes = {}, {}
for _, class in ipairs(classes) do
  local list = class.additions and touched_classes or untouched_classes
  list[#list + 1] = class
end

-- Returns by how much the vocabulary grows, given the tokens that the touched classes begin (1) or cease (-1) to have:
-- a token that another class has was in the vocabulary before, and stays there.
local function vocabulary_growth(tokens, growth)
  if #tokens == 0 then return 0 end
  local is_elsewhere, sum = {}, 0
  for _, class in ipairs(untouched_classes) do
    local counts = redis.call('HMGET', class.counts_key, unpack(tokens))
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
for _, class in ipairs(classes) do
  total_fields[#total_fields + 1], amounts[#amounts + 1] = 'messages:' .. class.label, class.messages
  total_fields[#total_fields + 1], amounts[#amounts + 1] = 'tokens:' .. class.label, class.weight
end
total_fields[#total_fields + 1] = 'vocabulary'
local totals = redis.call('HMGET', totals_key, unpack(total_fields))
for i = 1, #total_fields do totals[i] = (totals[i] or 0) + 0 end

-- From here on Redis refuses nothing. The ledger entries were read as hashes.
check_writes(totals_key, 'hash', 'HSET', 'HDEL')
for _, class in ipairs(classes) do
  check_writes(class.counts_key, 'hash', 'HMGET', 'HSET', 'HDEL')
  check_writes(class.prequential_scores_key, 'zset', 'ZADD', 'ZREM', 'ZREMRANGEBYRANK', 'ZRANGE')
end
check_writes(sequence_key, 'integer', 'INCRBY')
check_writes(changes_key, 'stream', 'XADD', 'XREVRANGE', 'XRANGE')
check_writes(history_key, 'stream', 'XADD')
check_writes(lessons[1].entry_key, 'hash', 'HGETALL', 'DEL', 'HSET', 'EXPIRE')

-- Read and write the counts in the touched classes, a chunk of names at a time, and follow the vocabulary: which of
-- the tokens some touched class has afterwards and none had before, or the other way round. This loop is most of the
-- script's time: it adds 0 to a string to make it a number, since that is faster than tonumber.
local vocabulary, touches_several = 0, #touched_classes > 1
local texts = {}  -- the texts of numbers: many tokens have the same count
local position = 1
for before_first = 0, name_count - 1, CHUNK do
  local size = math.min(CHUNK, name_count - before_first)
  local name_list = {struct.unpack(string.rep('s', size), names, position)}
  position = table.remove(name_list)
  local was_present, is_present, changed_tokens, growth = {}, {}, {}, {}
  local writes = {}  -- a command, the key and the command's other arguments
  local function note_presence(i, before, after)
    if before ~= after and before_first + i <= token_count then
      changed_tokens[#changed_tokens + 1] = name_list[i]
      growth[#growth + 1] = after and 1 or -1
    end
  end
  for _, class in ipairs(touched_classes) do
    local key, additions, resulting = class.counts_key, class.additions, class.resulting
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
    if set_length > 0 then writes[#writes + 1] = {'HSET', key, to_set} end
    if #to_delete > 0 then writes[#writes + 1] = {'HDEL', key, to_delete} end
  end
  if touches_several then
    for i = 1, size do note_presence(i, was_present[i], is_present[i]) end
  end
  vocabulary = vocabulary + vocabulary_growth(changed_tokens, growth)
  for _, write in ipairs(writes) do redis.call(write[1], write[2], unpack(write[3])) end
end

-- Add to the totals; a field that reaches zero is deleted.
amounts[#amounts + 1] = vocabulary
local totals_to_set = {}
for i, field in ipairs(total_fields) do
  local result = totals[i] + amounts[i]
  totals[i] = text(result)
  if result ~= 0 then
    totals_to_set[#totals_to_set + 1], totals_to_set[#totals_to_set + 2] = field, totals[i]
  elseif amounts[i] ~= 0 then
    redis.call('HDEL', totals_key, field)
  end
end
if #totals_to_set > 0 then redis.call('HSET', totals_key, unpack(totals_to_set)) end

-- Remove and add prequential scores in the order of the lessons: the limit may remove one before another goes.
local function note_prequential_score(class, word, prequential_score)
  class.prequential_scores[#class.prequential_scores + 1] = word
  class.prequential_scores[#class.prequential_scores + 1] = prequential_score
end
for _, lesson in ipairs(lessons) do
  local old_class, new_class = lesson.old_class, lesson.new_class
  if old_class and lesson.old_prequential_score ~= '' then
    if redis.call('ZREM', old_class.prequential_scores_key, lesson.old_prequential_score) == 1 then
      note_prequential_score(old_class, 'gone', lesson.old_prequential_score)
    end
  end
  if new_class and lesson.new_prequential_score ~= '' then
    local key, prequential_score = new_class.prequential_scores_key, lesson.new_prequential_score
    redis.call('ZADD', key, string.match(prequential_score, '^%S+'), prequential_score)
    note_prequential_score(new_class, 'come', prequential_score)
    if redis.call('ZREMRANGEBYRANK', key, 0, -max_prequential_scores - 1) > 0 then
      note_prequential_score(new_class, 'oldest', redis.call('ZRANGE', key, 0, 0)[1])
    end
  end
end

local sequence = redis.call('INCRBY', sequence_key, lesson_count)
local change = {'sequence', sequence, 'totals', table.concat(totals, ' '), 'names', packed_names}
local function add_to_change(field, value)
  change[#change + 1] = field
  change[#change + 1] = value
end
for _, class in ipairs(touched_classes) do
  add_to_change('counts:' .. class.label, table.concat(class.resulting, ' '))
end
for _, class in ipairs(classes) do
  if #class.prequential_scores > 0 then
    add_to_change('first:' .. class.label, table.concat(class.prequential_scores, '\n'))
  end
end
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
  local record = {'id', string.match(entry_key, '[^:]+$'), unpack(ARGV, lesson.history_start, entry_start - 1)}
  if lesson.has_old_entry then
    local former_entry = redis.call('HGETALL', entry_key)
    for i = 1, #former_entry, 2 do
      record[#record + 1] = 'former:' .. former_entry[i]
      record[#record + 1] = former_entry[i + 1]
    end
    redis.call('DEL', entry_key)
  end
  redis.call('XADD', history_key, 'MAXLEN', '~', max_history_records, '*', unpack(record))
  if entry_start <= entry_end then
    redis.call('HSET', entry_key, 'change', id, unpack(ARGV, entry_start, entry_end))
    redis.call('EXPIRE', entry_key, ledger_seconds)
  end
end
return id
