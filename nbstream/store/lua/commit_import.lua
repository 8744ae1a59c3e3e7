-- Make what an import has staged the content of its model, which must be empty.
--
-- Each call moves some ledger entries, so that Redis does nothing else for a few milliseconds only, and the call that
-- finds no others moves all that messages are scored by, in one step. The change that ends it leaves a gap in the
-- sequence numbers, so that everybody who follows the model reads it anew. From the first entry on lessons are refused
-- until the model is whole, or until the entries are removed again: the key of the import expires no longer.
--
-- KEYS: importing, staging, sequence, changes, the ids of staged entries, the staged columns, then staged totals, totals,
--       and in the same way the counts of each column and the prequential scores of each class.
-- ARGV: 1 the id of the import, as it stands in importing
--       2 the least stream id of the change, so that no imported ledger entry names a later change
--       3 about how many changes stay in the change stream
--       4 prefix of the keys of staged entries   5 prefix of the keys of ledger entries (they share the hash tag)
--       6 how many entries former calls have moved   7 how many are moved at once
-- Returns 1; 2 where the next call is to go on; 0 where the import's time is over; -1 where the model is not empty.
-- Nothing is changed then.

local importing_key, staging_key, sequence_key, changes_key, ids_key, columns_key = unpack(KEYS, 1, 6)
local import_id, least_id, max_changes, staged_prefix, ledger_prefix, moved, at_once = unpack(ARGV)

if redis.call('GET', importing_key) ~= import_id then return 0 end
for i = 8, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then return -1 end
end

check_writes(importing_key, 'any', 'SET', 'RENAMENX', 'UNLINK')
check_writes(sequence_key, 'integer', 'INCRBY')
check_writes(changes_key, 'stream', 'XADD')
local message_keys = redis.call('ZRANGE', ids_key, moved, moved + at_once - 1)
if #message_keys > 0 then
  redis.call('SET', importing_key, import_id)
  for _, message_key in ipairs(message_keys) do
    redis.pcall('RENAMENX', staged_prefix .. message_key, ledger_prefix .. message_key)  -- an error: it has expired
  end
  return 2
end

for i = 7, #KEYS, 2 do
  redis.pcall('RENAMENX', KEYS[i], KEYS[i + 1])  -- an error: there is no such key
end
redis.call('UNLINK', ids_key, columns_key, staging_key, importing_key)

local sequence = redis.call('INCRBY', sequence_key, 2)
local id = redis.pcall('XADD', changes_key, 'MAXLEN', '~', max_changes, least_id, 'sequence', sequence)
if type(id) == 'table' then  -- an error: the stream has a later id already, so the server's own time is late enough
  redis.call('XADD', changes_key, 'MAXLEN', '~', max_changes, '*', 'sequence', sequence)
end
return 1
