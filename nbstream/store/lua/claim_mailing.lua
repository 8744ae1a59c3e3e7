-- Find the mailing that a message is a copy of, or begin a new one. Of several processes one begins it.
--
-- KEYS: the bands of the message, the first of which is its own alone.
-- ARGV: 1 the mailing to begin, empty to begin none, 2 for how many seconds the bands stay.
-- Returns the mailing, or an empty string.

local found = false
for _, key in ipairs(KEYS) do
  found = found or redis.call('GET', key)
end
if not found and ARGV[1] == '' then
  return ''
end
for i, key in ipairs(KEYS) do
  local owner = redis.call('GET', key)
  if owner == found and found then
    redis.call('EXPIRE', key, ARGV[2])
  elseif not owner and (i == 1 or not found) then
    -- A copy brings its own band alone: else one mailing would grow into others by copies of copies.
    redis.call('SET', key, found or ARGV[1], 'EX', ARGV[2])
  end
end
return found or ARGV[1]
