-- End an import with a change that leaves a gap in the sequence numbers, so that every mirror scans the counts again.
--
-- KEYS: sequence, changes, importing.
-- ARGV: 1 the least stream id of the change, so that no imported ledger entry names a later change
--       2 about how many changes stay in the change stream   3 the import's state, as it stands in importing
-- Returns the stream id of the change. A repetition leaves one more gap and does no harm: an import that has begun
-- since has another state.

local sequence_key, changes_key, importing_key = unpack(KEYS)
local least_id, max_changes, state = unpack(ARGV)

if redis.call('GET', importing_key) == state then redis.call('DEL', importing_key) end
local sequence = redis.call('INCRBY', sequence_key, 2)
local fields = {'sequence', sequence, 'totals', '', 'tokens', ''}
local id = redis.pcall('XADD', changes_key, 'MAXLEN', '~', max_changes, least_id, unpack(fields))
if type(id) == 'table' then  -- an error: the stream has a later id already, so the server's own time is late enough
  id = redis.call('XADD', changes_key, 'MAXLEN', '~', max_changes, '*', unpack(fields))
end
return id
