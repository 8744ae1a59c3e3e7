-- Put a staged entry into the ledger, unless the message has one there, and its first score among the others.
--
-- KEYS: staged entry, ledger entry, first scores of the entry's class.
-- ARGV: 1 first score ("" = none)
-- Returns 1, 0 where the message has an entry, or -1 where there is no staged one (any more).

if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
local adopted = redis.call('RENAMENX', KEYS[1], KEYS[2])
if adopted == 1 and ARGV[1] ~= '' then
  redis.call('ZADD', KEYS[3], string.match(ARGV[1], '^%S+'), ARGV[1])
end
return adopted
