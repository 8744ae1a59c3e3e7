-- Return the changes after a position, and the ledger entries that they left, all of one moment.
--
-- KEYS: changes, history, totals.
-- ARGV: 1 stream id of the last change that is known   2 stream id of the last history record that is known
--       3 the largest number of changes to return   4 and of records
--       5 prefix of the keys of ledger entries (they belong to the model, and so share its hash tag)
-- Returns the changes; the stream id of the last history record; for each message in the records its key, the
-- milliseconds until its entry expires and the entry's names and values; and the names and values of the totals.

local changes_key, history_key, totals_key = unpack(KEYS)
local last_change, last_record, max_changes, max_records, ledger_prefix = unpack(ARGV)

local changes = redis.call('XRANGE', changes_key, '(' .. last_change, '+', 'COUNT', max_changes)
local records = redis.call('XRANGE', history_key, '(' .. last_record, '+', 'COUNT', max_records)
local entries = {}
for _, record in ipairs(records) do
  local fields = record[2]
  last_record = record[1]
  for i = 1, #fields, 2 do
    if fields[i] == 'id' then
      local message_key = fields[i + 1]
      local entry_key = ledger_prefix .. message_key
      entries[#entries + 1] = {message_key, redis.call('PTTL', entry_key), redis.call('HGETALL', entry_key)}
    end
  end
end
return {changes, last_record, entries, redis.call('HGETALL', totals_key)}
