-- Return the changes after a position, and the ledger entries that they left, all of one moment.
--
-- KEYS: changes, totals.
-- ARGV: 1 stream id of the last change that is known   2 the largest number of changes to return
--       3 prefix of the keys of ledger entries (they belong to the model, and so share its hash tag)
-- Returns the changes; for each message in them its key, the milliseconds until its entry expires and the entry's names
-- and values; and the names and values of the totals.

local changes_key, totals_key = unpack(KEYS)
local last_change, max_changes, ledger_prefix = unpack(ARGV)

local changes = redis.call('XRANGE', changes_key, '(' .. last_change, '+', 'COUNT', max_changes)
local entries = {}
for _, change in ipairs(changes) do
  local fields = change[2]
  for i = 1, #fields, 2 do
    if fields[i] == 'messages' then
      for message_key in string.gmatch(fields[i + 1], '%S+') do
        local entry_key = ledger_prefix .. message_key
        entries[#entries + 1] = {message_key, redis.call('PTTL', entry_key), redis.call('HGETALL', entry_key)}
      end
    end
  end
end
return {changes, entries, redis.call('HGETALL', totals_key)}
