-- Make what an import has staged the content of its model, which must be empty, in one step.
--
-- The change that ends it leaves a gap in the sequence numbers, so that everybody who follows the model reads it anew.
--
-- KEYS: importing, staging, sequence, changes, the ids of staged entries, then staged totals, totals, and in the same
--       way the counts and the prequential scores of each class.
-- ARGV: 1 the id of the import, as it stands in importing
--       2 the least stream id of the change, so that no imported ledger entry names a later change
--       3 about how many changes stay in the change stream
--       4 prefix of the keys of staged entries   5 prefix of the keys of ledger entries (they share the hash tag)
-- Returns 1; 0 where the import's time is over; -1 where the model is not empty. Nothing is changed then.

local importing_key, staging_key, sequence_key, changes_key, ids_key = unpack(KEYS, 1, 5)
local import_id, least_id, max_changes, staged_prefix, ledger_prefix = unpack(ARGV)
local IDS_AT_ONCE = 1000

if redis.call('GET', importing_key) ~= import_id then return 0 end
for i = 7, #KEYS, 2 do
  if redis.call('EXISTS', KEYS[i]) == 1 then return -1 end
end

check_writes(importing_key, 'any', 'RENAMENX', 'DEL')
check_writes(ids_key, 'zset', 'ZRANGE', 'ZCARD', 'DEL')
check_writes(sequence_key, 'integer', 'INCRBY')
check_writes(changes_key, 'stream', 'XADD')
for i = 6, #KEYS, 2 do
  redis.pcall('RENAMENX', KEYS[i], KEYS[i + 1])  -- an error: there is no such key
end
for first = 0, redis.call('ZCARD', ids_key) - 1, IDS_AT_ONCE do
  for _, message_key in ipairs(redis.call('ZRANGE', ids_key, first, first + IDS_AT_ONCE - 1)) do
    redis.pcall('RENAMENX', staged_prefix .. message_key, ledger_prefix .. message_key)  -- an error: it has expired
  end
end
redis.call('DEL', ids_key, staging_key, importing_key)

local sequence = redis.call('INCRBY', sequence_key, 2)
local id = redis.pcall('XADD', changes_key, 'MAXLEN', '~', max_changes, least_id, 'sequence', sequence)
if type(id) == 'table' then  -- an error: the stream has a later id already, so the server's own time is late enough
  redis.call('XADD', changes_key, 'MAXLEN', '~', max_changes, '*', 'sequence', sequence)
end
return 1
