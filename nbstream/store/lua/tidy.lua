-- Forget consumers that hold nothing: ours, and those that were not heard of for long.
--
-- KEYS: in. ARGV: 1 group   2 our consumer, if it leaves   3 milliseconds
-- A consumer that holds entries stays: they would be forgotten with it.

for _, reply in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for i = 1, #reply, 2 do consumer[reply[i]] = reply[i + 1] end
  if consumer.pending == 0 and (consumer.name == ARGV[2] or consumer.idle > tonumber(ARGV[3])) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer.name)
  end
end
