-- Remember a batch of checked messages, and forget the oldest ones where there are more than the limit.
--
-- KEYS: recent, rows, row indices.
-- ARGV: 1 for how many seconds a message is remembered
--       2 messages that were checked up to this time are forgotten (seconds since the epoch)
--       3 how many messages are remembered
--       4 prefixes of the messages' keys, 5 of the rows' keys, 6 of the indices' keys (they share the hash tag of KEYS)
--       7 how many messages are added
--       8 one after another, of each of them its time (a double), the sizes of what follows (4 integers of 4 bytes,
--         the lowest first), its id, its row, the names of the indices that have the row, separated by spaces, and
--         what is remembered of it; of a message without a row both row and names are empty
-- At most twice as many messages are forgotten as are added, and twice as many rows, and some more. The same batch may
-- be written again after a lost reply.
--
-- An older version that shares the model adds messages without rows, and forgets messages but not their rows. So rows
-- are forgotten by themselves: those that are older than the oldest message that is remembered. A row may have expired
-- by then; what has to be removed is in the row indices.

-- A message comes again where a mail server passes it on for each recipient by itself. Then its row is that of the last
-- check, with the recipients of the former ones behind it, by whom it is found as well.

local MAX_OTHERS = 20 -- recipients of former checks; each is in two indices, of its address and of its domain
local RECIPIENTS, ACTION = 8, 11 -- where a row has them; see message_rows.py

local recent_key, rows_key, indices_key = unpack(KEYS)
local seconds, forget_until, max_messages, prefix, row_prefix, index_prefix, added, batch = unpack(ARGV)
added = tonumber(added)
local touched = {}

local function index_names(id)
  local found = redis.call('ZRANGE', indices_key, '[' .. id .. ' ', '(' .. id .. '!', 'BYLEX', 'LIMIT', 0, 1)[1]
  return found, found and string.sub(found, #id + 2)
end

local function forget_row(id)
  local found, names = index_names(id)
  if found then
    for name in string.gmatch(names, '%S+') do
      redis.call('ZREM', index_prefix .. name, id)
    end
    redis.call('ZREM', indices_key, found)
    redis.call('ZREM', rows_key, id)
    redis.call('UNLINK', row_prefix .. id)
  end
end

-- The row with what stays of what is stored behind it: what became of the message in the quarantine, unless it waits
-- there again, and the recipients of former checks, the latest first.
-- Nothing stays behind a row without an envelope.
local function with_kept(packed, stored)
  local is_known, others = {}, {}
  local function add(recipients)
    for _, recipient in ipairs(type(recipients) == 'table' and recipients or {}) do
      if not is_known[recipient] and #others < MAX_OTHERS then
        is_known[recipient] = true
        others[#others + 1] = recipient
      end
    end
  end
  local values = cjson.decode(packed)
  if type(values[RECIPIENTS]) ~= 'table' then
    return packed, false
  end
  add(values[RECIPIENTS])
  others = {}
  local former, outcome, former_others = string.match(stored, '^([^\n]*)\n?([^\n]*)\n?([^\n]*)')
  if string.find(values[ACTION], 'quarantine', 1, true) then
    outcome = ''
  end
  add(cjson.decode(former)[RECIPIENTS])
  if former_others ~= '' then
    add(cjson.decode(former_others))
  end
  local behind = { packed, outcome, #others > 0 and cjson.encode(others) or '' }
  return string.gsub(table.concat(behind, '\n'), '\n+$', ''), #others > 0
end

-- The names of the indices of a row, with those of the recipients of former checks.
local function all_names(names, former_names)
  local is_known, added_names = {}, 0
  for name in string.gmatch(names, '%S+') do
    is_known[name] = true
  end
  for name in string.gmatch(former_names, '%S+') do
    if string.sub(name, 1, 1) == 't' and not is_known[name] and added_names < 2 * MAX_OTHERS then
      added_names = added_names + 1
      names = names .. ' ' .. name
    end
  end
  return names
end

local at = 1
local function take(size)
  at = at + size
  return string.sub(batch, at - size, at - 1)
end

for _ = 1, added do
  local time, id_size, row_size, names_size, size
  time, id_size, row_size, names_size, size, at = struct.unpack('<dI4I4I4I4', batch, at)
  local id, row, names, packed = take(id_size), take(row_size), take(names_size), take(size)
  redis.call('SET', prefix .. id, packed, 'EX', seconds)
  redis.call('ZADD', recent_key, time, id)
  if row ~= '' then
    if redis.call('ZADD', rows_key, time, id) == 0 then -- it was checked before, and may be in other indices
      local _, former_names = index_names(id)
      local stored = redis.call('GET', row_prefix .. id)
      if stored and former_names then
        local is_readable, whole, has_others = pcall(with_kept, row, stored)
        if is_readable then
          row, names = whole, has_others and all_names(names, former_names) or names
        end
      end
      forget_row(id)
      redis.call('ZADD', rows_key, time, id)
    end
    redis.call('SET', row_prefix .. id, row, 'EX', seconds)
    redis.call('ZADD', indices_key, 0, id .. ' ' .. names)
    for name in string.gmatch(names, '%S+') do
      redis.call('ZADD', index_prefix .. name, time, id)
      touched[index_prefix .. name] = true
    end
    touched[rows_key] = true
    touched[indices_key] = true
  end
end
redis.call('EXPIRE', recent_key, seconds)
for key in pairs(touched) do
  redis.call('EXPIRE', key, seconds)
end
redis.call('ZREMRANGEBYSCORE', recent_key, '-inf', forget_until)

local surplus = redis.call('ZCARD', recent_key) - tonumber(max_messages)
if surplus > 0 then
  for _, id in ipairs(redis.call('ZRANGE', recent_key, 0, math.min(surplus, 2 * added) - 1)) do
    redis.call('ZREM', recent_key, id)
    redis.call('UNLINK', prefix .. id)
  end
end

local oldest = redis.call('ZRANGE', recent_key, 0, 0, 'WITHSCORES')[2]
local before = oldest and '(' .. oldest or '+inf'
for _, id in ipairs(redis.call('ZRANGE', rows_key, '-inf', before, 'BYSCORE', 'LIMIT', 0, 2 * added + 10)) do
  forget_row(id)
end
