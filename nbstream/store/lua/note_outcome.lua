-- Note what became of a message in its row, which is remembered for as long as before. Without a row nothing is noted.
--
-- KEYS: the row.
-- ARGV: 1 what became of the message.

local stored = redis.call('GET', KEYS[1])
if stored then
  local row, behind = string.match(stored, '^([^\n]*)(.*)$')
  local others = string.match(behind, '^\n[^\n]*(\n.*)$') or ''
  redis.call('SET', KEYS[1], row .. '\n' .. ARGV[1] .. others, 'KEEPTTL')
end
