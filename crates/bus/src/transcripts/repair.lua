-- Corrects segments of a meeting, each only if it is still what was seen: a newer one that was
-- written since stays. Then makes the index and the lifetime fit.
--
-- KEYS: the segments, the index. ARGV: the meeting, the lifetime in seconds, then for each segment
-- its field, what was seen and what it should be; both with a '+' before them, or empty for nothing.
-- Returns how many were corrected.
local segments, index = KEYS[1], KEYS[2]
local meeting, ttl_secs = ARGV[1], ARGV[2]
local corrected = 0
for i = 3, #ARGV, 3 do
  local field, seen, wanted = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local value = redis.call('HGET', segments, field)
  if (value and '+' .. value or '') == seen then
    if wanted == '' then
      redis.call('HDEL', segments, field)
    else
      redis.call('HSET', segments, field, string.sub(wanted, 2))
    end
    corrected = corrected + 1
  end
end
if redis.call('EXISTS', segments) == 0 then
  redis.call('SREM', index, meeting)
else
  if corrected > 0 or redis.call('TTL', segments) < 0 then
    redis.call('EXPIRE', segments, ttl_secs)
  end
  redis.call('SADD', index, meeting)
end
return corrected
