-- Trims a stream behind what every group has acknowledged, removes dead consumers of one group, and
-- says how the stream stands. A script, because both need a look first and nothing may happen in
-- between: a group that is made meanwhile would miss what is trimmed, and what a consumer is given
-- meanwhile would vanish with it.
--
-- KEYS: the stream. ARGV: the group, the consumer that asks, the age in milliseconds, how long a
-- consumer must have been idle, how many entries are counted at most.
-- Returns entries, pending, lag, trimmed, consumers removed.
local stream, group, me = KEYS[1], ARGV[1], ARGV[2]
local older_than_ms, idle_ms, count_max = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]

if redis.call('EXISTS', stream) == 0 then
  return {0, 0, 0, 0, 0}
end

local function map(flat)
  local found = {}
  for i = 1, #flat, 2 do
    found[flat[i]] = flat[i + 1]
  end
  return found
end

-- Compares whole numbers as text: Lua's own lose digits, and ids have up to twenty.
local function number_less(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

local function id_less(a, b)
  local a_ms, a_number = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_number = string.match(b, '^(%d+)-(%d+)$')
  if a_ms ~= b_ms then
    return number_less(a_ms, b_ms)
  end
  return number_less(a_number, b_number)
end

-- The id right after this one; the id itself where Lua cannot count, which only keeps one more.
local function after(id)
  local ms, number = string.match(id, '^(%d+)-(%d+)$')
  if #number > 15 then
    return id
  end
  return ms .. '-' .. string.format('%.0f', tonumber(number) + 1)
end

local now = redis.call('TIME')
local now_ms = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
local keep_from = string.format('%.0f-0', math.max(0, now_ms - older_than_ms))
local mine = nil
for _, flat in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  local known = map(flat)
  if known['name'] == group then
    mine = known
  end
  local pending = redis.call('XPENDING', stream, known['name'])
  local first = after(known['last-delivered-id'])
  if pending[1] > 0 and id_less(pending[2], first) then
    first = pending[2]
  end
  if id_less(first, keep_from) then
    keep_from = first
  end
end

-- Without its group everything is still to be read.
if not mine then
  local entries = redis.call('XLEN', stream)
  return {entries, 0, entries, 0, 0}
end

local removed = 0
for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
  local known = map(flat)
  if known['name'] ~= me and known['pending'] == 0 and known['idle'] >= idle_ms then
    redis.call('XGROUP', 'DELCONSUMER', stream, group, known['name'])
    removed = removed + 1
  end
end

local trimmed = redis.call('XTRIM', stream, 'MINID', '=', keep_from)
-- The server does not know the lag after entries were deleted from the middle.
local lag = mine['lag']
if not lag then
  lag = #redis.call('XRANGE', stream, '(' .. mine['last-delivered-id'], '+', 'COUNT', count_max)
end
return {redis.call('XLEN', stream), mine['pending'], lag, trimmed, removed}
