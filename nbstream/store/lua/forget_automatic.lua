-- Forget what was learned without people: begin the next generation of its columns, and drop the present one.
--
-- KEYS: totals, sequence, changes, then the counts of the columns of the present generation.
-- ARGV: 1 the present generation, then the names of these columns
-- Whoever follows the model sees a gap in the sequence numbers. Returns false where that generation has ended already.

local totals_key, sequence_key, changes_key = unpack(KEYS, 1, 3)
local generation = ARGV[1]

if (redis.call('HGET', totals_key, 'generation') or '0') ~= generation then return false end
check_writes(totals_key, 'hash', 'HSET', 'HDEL')
check_writes(sequence_key, 'integer', 'INCRBY')
check_writes(changes_key, 'stream', 'XADD')
for i = 4, #KEYS do check_writes(KEYS[i], 'any', 'UNLINK') end
redis.call('HSET', totals_key, 'generation', string.format('%.0f', generation + 1))
redis.call('HDEL', totals_key, 'vocabulary:auto')
for i = 2, #ARGV do
  redis.call('HDEL', totals_key, 'messages:' .. ARGV[i], 'tokens:' .. ARGV[i])
  redis.call('UNLINK', KEYS[i + 2])
end
local sequence = redis.call('INCRBY', sequence_key, 2)
redis.call('XADD', changes_key, '*', 'sequence', sequence)
return sequence
