-- One call of a process to a limiter: its releases, renewals, polls and arrivals, decided at one instant of the server's clock.
-- The parts in this folder, joined in the order of their names, are one script: see script.go for its arguments and its answer.
-- Times are whole microseconds, and money is whole units of 1/p token: all below 2^53, so that Lua's doubles hold them exactly.
local state, leases, queue, seen, fences, record = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local call = redis.call
local arg = 0
local function text() arg = arg + 1; return ARGV[arg] end
local function number() return tonumber(text()) end
local function whole(x) return string.format('%.0f', x) end

local SCHEMA = 1
local me, batch, newEpoch, knownEpoch = text(), number(), text(), text()
local lease, pickup, patience, heartbeat = number(), number(), number(), number()
local maxQueue, trusted, strict = number(), text() == '1', text() == '1'
local asked = {version = number(), n = number(), p = number(), burst = number(), limit = number()}

local s = call('HMGET', state, 'schema', 'epoch', 'have', 'last', 'version', 'n', 'p', 'burst', 'limit', 'fence', 'extra', 'learn', 'drain')
if s[1] and tonumber(s[1]) > SCHEMA then
  return 'SCHEMA ' .. s[1]
end

-- The same batch sent again is answered as it was; an older one, overtaken by its successor, does nothing.
local before = call('GET', record)
if before then
  local cut = string.find(before, ' ', 1, true)
  local number = tonumber(string.sub(before, 1, cut - 1))
  if number == batch then return string.sub(before, cut + 1) end
  if number > batch then return 'STALE' end
end

local t = call('TIME')
local now = tonumber(t[1]) * 1000000 + tonumber(t[2])

-- Settings: the higher version holds; of two that are equal, the one that came first.
local set = {version = tonumber(s[5]), n = tonumber(s[6]), p = tonumber(s[7]), burst = tonumber(s[8]), limit = tonumber(s[9])}
local fresh = not s[2]
local epoch = s[2] or newEpoch
local have, last = tonumber(s[3]), tonumber(s[4])
local fence, extra, learn = tonumber(s[10]) or 0, tonumber(s[11]) or 0, tonumber(s[12]) or 0
local drained = s[13] == '1'
if fresh then
  set, last = asked, now
  have = set.burst * set.p
  if strict then learn = now + lease end
end

-- Refill. A clock that went back earns nothing, and leases end no later than they would if given now.
local function refill()
  local full = set.burst * set.p
  local elapsed = now - last
  if set.n > 0 and elapsed > 0 then
    if have < full then
      if elapsed >= math.ceil((full - have) / set.n) then have = full else have = have + elapsed * set.n end
    end
  end
  if elapsed < 0 then
    for _, id in ipairs(call('ZRANGEBYSCORE', leases, '(' .. whole(now + lease), '+inf', 'LIMIT', 0, 200)) do
      call('ZADD', leases, now + lease, id)
    end
    for _, id in ipairs(call('ZRANGEBYSCORE', seen, '(' .. whole(now + patience), '+inf', 'LIMIT', 0, 200)) do
      call('ZADD', seen, now + patience, id)
    end
    if learn > now + lease then learn = now + lease end
  end
  last = now
end
refill()

-- New settings keep the tokens that are there, up to the new burst; a part of a token is rounded down.
if asked.version > set.version then
  if set.p > 0 and asked.p > 0 and set.n > 0 then
    local tokens = math.floor(have / set.p)
    local part = have - tokens * set.p
    if asked.p ~= set.p then part = math.max(math.floor(part / set.p * asked.p) - 1, 0) end
    have = tokens * asked.p + part
    have = math.min(have, asked.burst * asked.p)
  else
    have = asked.burst * asked.p
  end
  set = asked
end
