-- Answer an entry and let it go, unless that was done before: each entry has one answer, whoever comes first.
--
-- KEYS: in, out.
-- ARGV: 1 group   2 the entry's stream id   3 about how many answers are kept   then the answer's names and values
-- Returns 1, or 0 where the entry is not pending any more.

if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1) == 0 then return 0 end
-- First the one that a full Redis refuses: nothing is written then, and the entry stays pending.
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', unpack(ARGV, 4))
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
return 1
