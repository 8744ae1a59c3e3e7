-- Note what became of a message in its row, which is remembered for as long as before. Without a row nothing is noted.
--
-- KEYS: the row.
-- ARGV: 1 what became of the message.

local row = redis.call('GET', KEYS[1])
if row then
  redis.call('SET', KEYS[1], string.match(row, '[^\n]*') .. '\n' .. ARGV[1], 'KEEPTTL')
end
