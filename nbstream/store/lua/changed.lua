-- What changed after a place, and the ledger entries that it left, all of one moment.
--
-- KEYS: changes, history, totals, importing.
-- ARGV: 1 stream id of the last change known, 2 of the last record of the history known, 3 how many of each at most,
--       4 the beginning of the names of the ledger's keys (of the model, and so of the same hash tag)
-- Returns the changes, the history's last id, for each message in the history's records its key, the milliseconds
-- that its entry has left and the entry's fields, then the totals, and what is being imported.

local changes = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[3])
local records = redis.call('XRANGE', KEYS[2], '(' .. ARGV[2], '+', 'COUNT', ARGV[3])
local last, entries = ARGV[2], {}
for _, record in ipairs(records) do
  last = record[1]
  for i = 1, #record[2], 2 do
    if record[2][i] == 'id' then
      local key = ARGV[4] .. record[2][i + 1]
      entries[#entries + 1] = {record[2][i + 1], redis.call('PTTL', key), redis.call('HGETALL', key)}
    end
  end
end
return {changes, last, entries, redis.call('HGETALL', KEYS[3]), redis.call('GET', KEYS[4]) or ''}
