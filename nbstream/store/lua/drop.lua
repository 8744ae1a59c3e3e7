-- Begin the next epoch of a layer: what the last one holds is no longer read from here on.
--
-- KEYS: epoch, sequence, changes, the next epoch's sequence.
-- ARGV: 1 the epoch that is to end   2 the next one   3 seconds for which mirrors can read of the end
-- Whoever follows the last epoch is shown a gap in the numbers. Returns false where it has ended already.

if (redis.call('GET', KEYS[1]) or '0') ~= ARGV[1] then return false end
redis.call('SET', KEYS[1], ARGV[2])
local sequence = redis.call('INCRBY', KEYS[2], 2)
redis.call('SET', KEYS[4], sequence)
redis.call('XADD', KEYS[3], '*', 'sequence', sequence, 'totals', '', 'tokens', '')
redis.call('EXPIRE', KEYS[2], ARGV[3])
redis.call('EXPIRE', KEYS[3], ARGV[3])
return sequence
