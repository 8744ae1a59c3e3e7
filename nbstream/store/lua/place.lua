-- Where a model is, all of one moment. A script, since a server that is out of memory refuses MULTI, reads and all.
--
-- KEYS: changes, sequence, history, totals. Returns the last change's id and number, the id of the history's last
-- record, and the totals.

local function last(key)
  local entries = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)
  return entries[1] and entries[1][1] or '0-0'
end

return {last(KEYS[1]), redis.call('GET', KEYS[2]) or '0', last(KEYS[3]), redis.call('HGETALL', KEYS[4])}
