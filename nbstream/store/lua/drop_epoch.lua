-- Begin the next epoch of an autolearn layer: from here on nobody reads what the old epoch holds.
--
-- KEYS: epoch, sequence and changes of the old epoch, sequence of the new epoch.
-- ARGV: 1 old epoch   2 new epoch   3 for how many seconds mirrors can still read the end of the old change stream
-- A mirror that follows the old epoch sees a gap in the sequence numbers. Returns false where the old epoch has ended
-- already.

local epoch_key, old_sequence_key, old_changes_key, new_sequence_key = unpack(KEYS)
local old_epoch, new_epoch, old_stream_seconds = unpack(ARGV)

if (redis.call('GET', epoch_key) or '0') ~= old_epoch then return false end
check_writes(epoch_key, 'any', 'SET')
check_writes(old_sequence_key, 'integer', 'INCRBY', 'EXPIRE')
check_writes(old_changes_key, 'stream', 'XADD', 'EXPIRE')
check_writes(new_sequence_key, 'any', 'SET')
redis.call('SET', epoch_key, new_epoch)
local sequence = redis.call('INCRBY', old_sequence_key, 2)
redis.call('SET', new_sequence_key, sequence)
redis.call('XADD', old_changes_key, '*', 'sequence', sequence)
redis.call('EXPIRE', old_sequence_key, old_stream_seconds)
redis.call('EXPIRE', old_changes_key, old_stream_seconds)
return sequence
