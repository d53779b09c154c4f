-- pays reports whether such a call can start now: the only place that decides.
local function pays(tokens, weight)
  if drained or now < learn then return false end
  if set.n > 0 and have < tokens * set.p then return false end
  return set.limit == 0 or weightHeld() + weight <= set.limit
end

local function fits(tokens, weight)
  return (set.n == 0 or tokens <= set.burst) and (set.limit == 0 or weight <= set.limit)
end

-- charge takes token and permit together, and returns the fence: never smaller than one before, also if the state was lost.
local function charge(id, tokens, weight, length)
  if set.n > 0 then have = have - tokens * set.p end
  fence = math.max(fence + 1, now)
  if length > 0 then
    keep(id, length)
    held, extra = held + 1, extra + (weight - 1)
  end
  return fence
end

-- pump serves the line from its front, and stops at the first that cannot be paid for: nobody is overtaken but those whose
-- process is gone. A grant for another process is pushed, and is short until it is picked up; without a quota of permits it is
-- kept as a note until then, so that a lost push costs no second token.
local mine = {}
local function pump()
  local given, skipped = 0, 0
  while given < 64 and skipped < 16 do
    local id = call('ZRANGE', queue, skipped, skipped)[1]
    if not id then return end
    local process, tokens, weight, listens = parts(id)
    if not fits(tokens, weight) then
      leave(id) -- its next poll comes as a newcomer, and is told
    elseif not pays(tokens, weight) then
      return
    elseif process == me then
      leave(id)
      mine[#mine + 1] = id
      mine[#mine + 1] = whole(charge(id, tokens, weight, set.limit > 0 and lease or 0))
      given = given + 1
    else
      local number = whole(math.max(fence + 1, now))
      local heard = call('PUBLISH', state .. ':' .. process, whole(now) .. ' ' .. number .. ' ' .. whole(pickup) .. ' ' .. id)
      if heard == 0 and trusted and listens then
        skipped = skipped + 1
      else
        leave(id)
        charge(id, tokens, weight, pickup)
        call('HSET', fences, id, number)
        given = given + 1
      end
    end
  end
end
pump()
