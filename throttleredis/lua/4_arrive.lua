-- wait is the least time until a call with that many others ahead can have its tokens; permits are taken as free.
local function wait(ahead, tokens)
  local learning = math.max(learn - now, 0)
  if set.n == 0 then return learning end
  local lacking = (ahead + tokens) * set.p - have
  return math.max(learning, math.ceil(math.max(lacking, 0) / set.n))
end

-- look is when a waiter should ask again if no push comes: when its token is due, or the next lease ends, at a heartbeat at the latest.
local function look(id, tokens)
  local d = wait(call('ZRANK', queue, id), tokens)
  if d == 0 then
    local first = call('ZRANGE', leases, 0, 0, 'WITHSCORES')
    d = first[2] and math.max(tonumber(first[2]) - now, 0) + 1 or heartbeat
  end
  return math.min(d, heartbeat)
end

-- poll: a waiter is heard of. It may have been served meanwhile, or have been forgotten.
local polls = number()
for _ = 1, polls do
  local id = text()
  local _, tokens, weight = parts(id)
  local served
  for i = 1, #mine, 2 do served = served or mine[i] == id end
  if served then
    say('M')
  elseif call('ZSCORE', leases, id) then
    local number = call('HGET', fences, id) or whole(fence)
    if set.limit > 0 then keep(id, lease) else drop(id, weight) end
    say('G', number)
  elseif call('ZSCORE', queue, id) then
    call('ZADD', seen, now + patience, id)
    say('Q', look(id, tokens))
  else
    say('L')
  end
end

-- arrive: a newcomer starts if the line is empty and it can be paid for; else it is refused, or joins the line at its end.
local arrivals = number()
local length = call('ZCARD', queue)
local ticket
for _ = 1, arrivals do
  local id, allowed = text(), number() -- allowed: the longest wait, in microseconds; 0 for a try, -1 for any
  local _, tokens, weight = parts(id)
  if not fits(tokens, weight) then
    say('X')
  elseif length == 0 and pays(tokens, weight) then
    say('G', charge(id, tokens, weight, set.limit > 0 and lease or 0))
  else
    local w = wait(length, tokens)
    if maxQueue > 0 and length >= maxQueue and allowed ~= 0 then
      say('F', w)
    elseif allowed == 0 or allowed > 0 and w >= allowed then
      say('N', w)
    else
      if not ticket then
        local back = call('ZRANGE', queue, -1, -1, 'WITHSCORES')
        ticket = back[2] and tonumber(back[2]) or 0
      end
      ticket = ticket + 1
      call('ZADD', queue, ticket, id)
      call('ZADD', seen, now + patience, id)
      length = length + 1
      say('Q', look(id, tokens))
    end
  end
end
