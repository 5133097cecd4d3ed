-- Removes segments of a meeting; the last one takes the meeting out of the index. A script, because
-- a segment that is written between the look and the removal must find its meeting in the index.
--
-- KEYS: the segments, the index. ARGV: the meeting, fields.
for i = 2, #ARGV do
  redis.call('HDEL', KEYS[1], ARGV[i])
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('SREM', KEYS[2], ARGV[1])
end
return 0
