-- Return the position of a model, all of one moment: the stream id of the last change, its sequence number, the stream
-- id of the history's last record, and the names and values of the totals.
--
-- KEYS: changes, sequence, history, totals.
-- This is a script because a server that is out of memory refuses a MULTI even if it only reads.

local changes_key, sequence_key, history_key, totals_key = unpack(KEYS)

local function last_id(key)
  local entries = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)
  return entries[1] and entries[1][1] or '0-0'
end

local sequence = redis.call('GET', sequence_key) or '0'
return {last_id(changes_key), sequence, last_id(history_key), redis.call('HGETALL', totals_key)}
