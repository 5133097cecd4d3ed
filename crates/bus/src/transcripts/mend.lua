-- Deletes keys that are not what they should be.
--
-- KEYS: any. ARGV: the type of each. Returns how many were deleted.
local deleted = 0
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key)['ok']
  if kind ~= 'none' and kind ~= ARGV[i] then
    deleted = deleted + redis.call('DEL', key)
  end
end
return deleted
