-- Remove the consumers without pending entries: our own when it leaves, and those that were silent for a long time.
--
-- KEYS: incoming stream.
-- ARGV: 1 consumer group   2 our consumer if it leaves ('' otherwise)   3 milliseconds of silence
-- A consumer with pending entries stays: Redis would forget them together with it.

local incoming_key = KEYS[1]
local group, leaving_consumer, silent_milliseconds = unpack(ARGV)

for _, reply in ipairs(redis.call('XINFO', 'CONSUMERS', incoming_key, group)) do
  local consumer = {}
  for i = 1, #reply, 2 do consumer[reply[i]] = reply[i + 1] end
  local is_silent = consumer.idle > tonumber(silent_milliseconds)
  if consumer.pending == 0 and (consumer.name == leaving_consumer or is_silent) then
    redis.call('XGROUP', 'DELCONSUMER', incoming_key, group, consumer.name)
  end
end
