-- The checks of a script with several writes, before its first one. This text goes before every script of this folder.
--
-- Redis takes nothing back where it refuses a command in the middle of a script. It looks at its memory, its disk and
-- its replicas before the first write alone. So there are two reasons left to refuse a later one: a key has another
-- type, or the user may not run the command. Whatever a script reads after its first write is checked as well.

local SIZES = {hash = 'HLEN', zset = 'ZCARD', stream = 'XLEN'}

local may_run = redis.acl_check_cmd
if not may_run then
  -- Redis 6.2 tells only somebody who tries. There a user may run a command on all of their keys, or on none.
  local tried = {}
  -- Arguments behind the key with which a command changes nothing where there is no such key. HSET, HINCRBY and INCRBY
  -- have none that Redis takes: it refuses these as they are no pair and no number.
  local HARMLESS_ARGUMENTS = {
    DEL = {}, UNLINK = {}, GET = {}, HGETALL = {}, ZCARD = {},
    EXPIRE = {1}, SET = {'', 'XX'},
    HSET = {'', '', ''}, HINCRBY = {'', '-'}, INCRBY = {'-'}, HDEL = {''}, HMGET = {''},
    ZADD = {'XX', 0, ''}, ZREM = {''}, ZREMRANGEBYRANK = {1, 0}, ZREMRANGEBYSCORE = {1, 0}, ZRANGE = {1, 0},
    XADD = {'NOMKSTREAM', '*', '', ''}, XACK = {'', 0}, XDEL = {0}, XRANGE = {'-', '+'}, XREVRANGE = {'+', '-'},
  }
  local REFUSALS, EXPECTED = {"can't run", "can't access"}, {'wrong number', 'not an integer'}
  local function has_one(text, parts)
    for _, part in ipairs(parts) do
      if string.find(text, part, 1, true) then return true end
    end
  end
  may_run = function(command, key)
    if tried[command] then return true end
    tried[command] = true
    local reply = redis.pcall(command, key .. ':none', unpack(HARMLESS_ARGUMENTS[command]))
    local text = type(reply) == 'table' and reply.err
    if not text or has_one(text, EXPECTED) then return true end
    if not has_one(text, REFUSALS) then error(text, 0) end
    return false
  end
end

-- Raise an error where the user may not run one of the commands with the key, or where the key has another type than
-- this one: 'hash', 'zset', 'stream', 'integer', or 'any' where it does not matter. A Redis that is out of memory
-- refuses the script if the first command of its first check needs memory.
local function check_writes(key, kind, ...)
  for _, command in ipairs({...}) do
    if not may_run(command, key) then error('NOPERM this user may not run ' .. command .. ' on ' .. key, 0) end
  end
  local is_other_type
  if kind == 'integer' then
    local value = redis.pcall('GET', key)
    is_other_type = value and (type(value) ~= 'string' or not string.match(value, '^-?%d+$'))
  elseif kind ~= 'any' then
    is_other_type = type(redis.pcall(SIZES[kind], key)) == 'table'
  end
  if is_other_type then error('WRONGTYPE ' .. key .. ' holds no ' .. kind, 0) end
end

