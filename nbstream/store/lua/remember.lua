-- Remember a batch of checked messages, and forget the oldest ones where there are more than the limit.
--
-- KEYS: recent.
-- ARGV: 1 for how many seconds a message is remembered
--       2 messages that were checked up to this time are forgotten (seconds since the epoch)
--       3 how many messages are remembered
--       4 prefixes of the messages' keys, 5 of the rows' keys, 6 of the indices' keys (they share the hash tag of KEYS)
--       7 how many messages are added
--       8 one after another, of each of them its time (a double), the sizes of what follows (3 integers of 4 bytes,
--         the lowest first), its id, its row, and what is remembered of it
-- At most twice as many messages are forgotten as are added. The same batch may be written again after a lost reply.
-- A row expires by itself; then it is too old for the indices as well.
--
-- A message comes again where a mail server passes it on for each recipient by itself. Then its row is that of the last
-- check, with the recipients of the former ones behind it, who find it as well.

local MAX_OTHERS = 20 -- recipients of former checks; each is in an index, and their user may be in another one
local RECIPIENTS, ACTION = 7, 10 -- where a row has them; see message_rows.py

local recent_key = KEYS[1]
local seconds, forget_until, max_messages, prefix, row_prefix, index_prefix, added, batch = unpack(ARGV)
added = tonumber(added)
local touched = {}

-- A row, what became of its message, the recipients of former checks, and the names of its indices.
local function parts_of(stored)
  return string.match(stored, '^([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)$')
end

-- What another program has written in the place of a row or of an index is as good as none here.
local function stored_row(id)
  local stored = redis.pcall('GET', row_prefix .. id)
  return type(stored) == 'string' and stored or nil
end

local function forget_row(id)
  local _, _, _, names = parts_of(stored_row(id) or '')
  for name in string.gmatch(names or '', '%S+') do
    redis.pcall('ZREM', index_prefix .. name, id)
  end
  redis.call('UNLINK', row_prefix .. id)
end

-- The row with what stays of what is stored behind the former one: what became of the message in the quarantine, unless
-- it waits there again, and the recipients of former checks, the latest first. Nothing stays behind a row without an
-- envelope.
local function with_kept(packed, stored)
  local row, _, _, names = parts_of(packed)
  local values = cjson.decode(row)
  if type(values[RECIPIENTS]) ~= 'table' then
    return packed
  end
  local former, outcome, former_others, former_names = parts_of(stored)
  if string.find(values[ACTION], 'quarantine', 1, true) then
    outcome = ''
  end

  local is_known, others = {}, {}
  local function add(recipients)
    for _, recipient in ipairs(type(recipients) == 'table' and recipients or {}) do
      if not is_known[recipient] and #others < MAX_OTHERS then
        is_known[recipient] = true
        others[#others + 1] = recipient
      end
    end
  end
  add(values[RECIPIENTS])
  others = {}
  add(cjson.decode(former)[RECIPIENTS])
  if former_others ~= '' then
    add(cjson.decode(former_others))
  end

  local is_named, added_names = {}, 0
  for name in string.gmatch(names, '%S+') do
    is_named[name] = true
  end
  for name in string.gmatch(former_names, '%S+') do
    if not is_named[name] and added_names < 2 * MAX_OTHERS then
      added_names = added_names + 1
      names = names .. ' ' .. name
    end
  end
  return table.concat({ row, outcome, #others > 0 and cjson.encode(others) or '', names }, '\n')
end

local at = 1
local function take(size)
  at = at + size
  return string.sub(batch, at - size, at - 1)
end

local messages, rows, is_replaced = {}, {}, {}
touched[recent_key] = true
for i = 1, added do
  local time, id_size, row_size, size
  time, id_size, row_size, size, at = struct.unpack('<dI4I4I4', batch, at)
  local id, row, packed = take(id_size), take(row_size), take(size)
  local stored = rows[id] or stored_row(id)
  if stored then
    local is_readable, whole = pcall(with_kept, row, stored)
    row = is_readable and whole or row
  end
  rows[id], is_replaced[id] = row, stored ~= nil
  local _, _, _, names = parts_of(row)
  for name in string.gmatch(names, '%S+') do
    touched[index_prefix .. name] = true
  end
  messages[i] = { time, id, row, packed, names }
end

check_writes(prefix, 'any', 'SET', 'UNLINK')
check_writes(row_prefix, 'any', 'SET', 'GET', 'UNLINK')
for key in pairs(touched) do
  check_writes(key, 'zset', 'ZADD', 'ZREM', 'ZREMRANGEBYSCORE', 'EXPIRE', 'ZCARD', 'ZRANGE')
end

for _, message in ipairs(messages) do
  local time, id, row, packed, names = unpack(message)
  redis.call('SET', prefix .. id, packed, 'EX', seconds)
  redis.call('ZADD', recent_key, time, id)
  if is_replaced[id] then
    forget_row(id)
  end
  redis.call('SET', row_prefix .. id, row, 'EX', seconds)
  for name in string.gmatch(names, '%S+') do
    redis.call('ZADD', index_prefix .. name, time, id)
  end
end
for key in pairs(touched) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', forget_until)
  redis.call('EXPIRE', key, seconds)
end

local surplus = redis.call('ZCARD', recent_key) - tonumber(max_messages)
if surplus > 0 then
  for _, id in ipairs(redis.call('ZRANGE', recent_key, 0, math.min(surplus, 2 * added) - 1)) do
    redis.call('ZREM', recent_key, id)
    redis.call('UNLINK', prefix .. id)
    forget_row(id)
  end
end
