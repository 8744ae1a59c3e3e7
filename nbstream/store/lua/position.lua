-- Return the position of a model, all of one moment: the stream id of the last change, its sequence number, and the
-- names and values of the totals.
--
-- KEYS: changes, sequence, totals.
-- This is a script because a server that is out of memory refuses a MULTI even if it only reads.

local changes_key, sequence_key, totals_key = unpack(KEYS)
local last_change = redis.call('XREVRANGE', changes_key, '+', '-', 'COUNT', 1)[1]
return {
  last_change and last_change[1] or '0-0', redis.call('GET', sequence_key) or '0', redis.call('HGETALL', totals_key),
}
