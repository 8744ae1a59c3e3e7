-- Put a staged entry into the ledger, unless the message has an entry there, and its first score beside the others.
--
-- KEYS: staged entry, ledger entry, first scores of the entry's class.
-- ARGV: 1 first score ('' = none)
-- Returns 1; 0 where the message has an entry already; -1 where there is no staged entry (any more).

local staged_key, entry_key, first_scores_key = unpack(KEYS)
local first_score = ARGV[1]

if redis.call('EXISTS', staged_key) == 0 then return -1 end
local adopted = redis.call('RENAMENX', staged_key, entry_key)
if adopted == 1 and first_score ~= '' then
  redis.call('ZADD', first_scores_key, string.match(first_score, '^%S+'), first_score)
end
return adopted
