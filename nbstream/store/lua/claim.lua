-- Claim the oldest entry whose consumer has left it idle for too long, or move it to the dead letters if it was tried
-- too often.
--
-- KEYS: incoming stream, outgoing stream, dead letters.
-- ARGV: 1 consumer group   2 our consumer   3 idle milliseconds   4 the largest number of tries
--       5 about how many answers stay   6 about how many dead letters stay   7 the answer to a dead letter
-- Returns what was done, the entry's stream id, and its names and values: 'claimed', 'dead', or 'lost' where somebody
-- has removed the entry. Returns false where there is no entry to claim.

local incoming_key, outgoing_key, dead_letters_key = unpack(KEYS)
local group, consumer, idle, max_tries, max_answers, max_dead_letters, error_text = unpack(ARGV)

local pending = redis.call('XPENDING', incoming_key, group, 'IDLE', idle, '-', '+', 1)[1]
if not pending then return false end
local entry_id, tries = pending[1], pending[4]
local entry = redis.call('XRANGE', incoming_key, entry_id, entry_id)[1]
if not entry then
  redis.call('XACK', incoming_key, group, entry_id)
  return {'lost', entry_id, {}}
end
local fields = entry[2]
if tries < tonumber(max_tries) then
  redis.call('XCLAIM', incoming_key, group, consumer, idle, entry_id)
  return {'claimed', entry_id, fields}
end
check_writes(dead_letters_key, 'stream', 'XADD')
check_writes(outgoing_key, 'stream', 'XADD')
check_writes(incoming_key, 'stream', 'XACK', 'XDEL')
-- A readable entry has few fields. Of an entry with thousands of fields only the first are copied: unpack() could not
-- pass all of them at once.
local copied, id = {}, entry_id
for i = 1, math.min(#fields, 100), 2 do
  copied[i], copied[i + 1] = fields[i], fields[i + 1]
  if fields[i] == 'id' then id = string.sub(fields[i + 1], 1, 256) end
end
redis.call(
  'XADD', dead_letters_key, 'MAXLEN', '~', max_dead_letters, '*', 'entry', entry_id, 'tries', tries, unpack(copied)
)
redis.call('XADD', outgoing_key, 'MAXLEN', '~', max_answers, '*', 'entry', entry_id, 'id', id, 'error', error_text)
redis.call('XACK', incoming_key, group, entry_id)
redis.call('XDEL', incoming_key, entry_id)
return {'dead', entry_id, {}}
