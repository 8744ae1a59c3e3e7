-- Answer an entry of the incoming stream and remove it. Each entry gets one answer, from whoever comes first.
--
-- KEYS: incoming stream, outgoing stream.
-- ARGV: 1 consumer group   2 stream id of the entry   3 about how many answers stay in the outgoing stream
--       then the names and values of the answer
-- Returns 1, or 0 where the entry is no longer pending.

local incoming_key, outgoing_key = unpack(KEYS)
local group, entry_id, max_answers = unpack(ARGV, 1, 3)

if #redis.call('XPENDING', incoming_key, group, entry_id, entry_id, 1) == 0 then return 0 end
-- XADD comes first: a Redis whose memory is full refuses it, so nothing is written and the entry stays pending.
check_writes(outgoing_key, 'stream', 'XADD')
check_writes(incoming_key, 'stream', 'XACK', 'XDEL')
redis.call('XADD', outgoing_key, 'MAXLEN', '~', max_answers, '*', unpack(ARGV, 4))
redis.call('XACK', incoming_key, group, entry_id)
redis.call('XDEL', incoming_key, entry_id)
return 1
