-- An id is PROCESS:SEQUENCE:TOKENS:WEIGHT:LISTENS, so that whoever sweeps or serves it needs no further key.
local function parts(id)
  local process, tokens, weight, listens = string.match(id, '^(%x+):%d+:(%d+):(%d+):([01])$')
  return process, tonumber(tokens), tonumber(weight), listens == '1'
end

-- In flight is what the leases say: their number, and the weight that any has above 1. No counter outlives them.
local held = call('ZCARD', leases)
if held == 0 then extra = 0 end

local function weightHeld() return held + extra end

local function drop(id, weight)
  if call('ZREM', leases, id) == 0 then return false end
  held, extra = held - 1, extra - (weight - 1)
  call('HDEL', fences, id)
  return true
end

local function leave(id)
  call('ZREM', queue, id)
  call('ZREM', seen, id)
end

local function keep(id, length) call('ZADD', leases, now + length, id) end

-- sweep takes back what was not renewed, and forgets waiters that have not been heard of.
local function sweep()
  for _, id in ipairs(call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, 200)) do
    local _, _, weight = parts(id)
    drop(id, weight)
  end
  for _, id in ipairs(call('ZRANGEBYSCORE', seen, '-inf', now, 'LIMIT', 0, 200)) do leave(id) end
end

-- release: a lease ends, or a waiter gives up. What is not there is not given back.
local releases = number()
for _ = 1, releases do
  local id = text()
  local _, _, weight = parts(id)
  if not drop(id, weight) then leave(id) end
end

-- renew: a lease that is there is lengthened. One that is not is lost, unless the state is newer than the lease (Redis has
-- forgotten it, not given it away): then it is taken up again, even above the limit, and nothing is granted until the count has dropped.
local answer = {}
local function say(...)
  for _, x in ipairs({...}) do answer[#answer + 1] = type(x) == 'number' and whole(x) or x end
end
local forgotten = knownEpoch ~= '' and knownEpoch ~= epoch
local renewals = number()
for _ = 1, renewals do
  local id, older = text(), text() == '1'
  local score = call('ZSCORE', leases, id)
  if score then
    if tonumber(score) > now then keep(id, lease); say('H') else say('L') end
  elseif forgotten or older then
    local _, _, weight = parts(id)
    keep(id, lease)
    held, extra = held + 1, extra + (weight - 1)
    say('H')
  else
    say('L')
  end
end
sweep()
