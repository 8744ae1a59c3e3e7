-- Make what an import has written the content of its model: add the totals, and let lessons in again.
--
-- The change that ends it leaves a gap in the sequence numbers, so that everybody who follows the model reads it anew.
--
-- KEYS: importing, imported, sequence, changes, totals.
-- ARGV: 1 the id of the import, as it stands in importing
--       2 the least stream id of the change, so that no imported ledger entry names a later change
--       3 about how many changes stay in the change stream
--       then the names and values of the totals
-- Returns 1, or 0 where another import has begun; nothing is changed then.

local importing_key, imported_key, sequence_key, changes_key, totals_key = unpack(KEYS)
local import_id, least_id, max_changes = unpack(ARGV, 1, 3)

if redis.call('GET', importing_key) ~= import_id then
  local last = redis.call('XREVRANGE', changes_key, '+', '-', 'COUNT', 1)[1]
  return last and last[2][4] == import_id and 1 or 0  -- the reply to an earlier attempt may have been lost
end
local totals = {unpack(ARGV, 4)}

check_writes(totals_key, 'hash', 'HSET', 'UNLINK')
check_writes(importing_key, 'any', 'UNLINK')
check_writes(imported_key, 'any', 'UNLINK')
check_writes(sequence_key, 'integer', 'INCRBY')
check_writes(changes_key, 'stream', 'XADD')
redis.call('UNLINK', totals_key, importing_key, imported_key)
if #totals > 0 then
  redis.call('HSET', totals_key, unpack(totals))
end

local sequence = redis.call('INCRBY', sequence_key, 2)
local id = redis.pcall('XADD', changes_key, 'MAXLEN', '~', max_changes, least_id, 'sequence', sequence, 'import', import_id)
if type(id) == 'table' then  -- an error: the stream has a later id already, so the server's own time is late enough
  redis.call('XADD', changes_key, 'MAXLEN', '~', max_changes, '*', 'sequence', sequence, 'import', import_id)
end
return 1
