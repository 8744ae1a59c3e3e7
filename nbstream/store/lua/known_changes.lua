-- Return 1 if the change stream has a change under its number, or had it before the stream was trimmed; else 0.
--
-- KEYS: changes.
-- ARGV: 1 stream id of the change   2 its sequence number
-- A change that is older than the first one in the stream was trimmed if the first one has a larger number.

local changes_key = KEYS[1]
local change, sequence = ARGV[1], tonumber(ARGV[2])

local function sequence_of(entries)
  if not entries[1] then return nil end
  local fields = entries[1][2]
  for i = 1, #fields, 2 do
    if fields[i] == 'sequence' then return tonumber(fields[i + 1]) end
  end
  return nil
end

local stored = sequence_of(redis.call('XRANGE', changes_key, change, change))
if stored then return stored == sequence and 1 or 0 end
local first = redis.call('XRANGE', changes_key, '-', '+', 'COUNT', 1)
local first_sequence = sequence_of(first)
if not first_sequence or first_sequence <= sequence then return 0 end
local function position(id)
  local milliseconds, number = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(milliseconds), tonumber(number)
end
local first_ms, first_number = position(first[1][1])
local ms, number = position(change)
return (ms < first_ms or (ms == first_ms and number < first_number)) and 1 or 0
