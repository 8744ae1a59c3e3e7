-- The end of an import: a change whose number leaves a gap, so that every mirror scans anew.
--
-- KEYS: sequence, changes, importing.
-- ARGV: 1 the least stream id of the change, so that none of the imported entries names a later one
--       2 length to which the change stream is trimmed   3 the import's mark, as it stands in importing
-- A repeat leaves one more gap, and does no harm: an import that has begun since has another mark.

if redis.call('GET', KEYS[3]) == ARGV[3] then redis.call('DEL', KEYS[3]) end
local sequence = redis.call('INCRBY', KEYS[1], 2)
local fields = {'sequence', sequence, 'totals', '', 'tokens', ''}
local id = redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], ARGV[1], unpack(fields))
if type(id) == 'table' then  -- the stream is further on: the server's clock is right
  id = redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', unpack(fields))
end
return id
