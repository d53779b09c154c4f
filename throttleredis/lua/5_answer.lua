-- Everything that was written lives until it no longer matters: until the bucket is full, and leases and waiters are gone.
call('HSET', state, 'schema', SCHEMA, 'epoch', epoch, 'have', whole(have), 'last', whole(last), 'version', whole(set.version),
  'n', whole(set.n), 'p', whole(set.p), 'burst', whole(set.burst), 'limit', whole(set.limit),
  'fence', whole(fence), 'extra', whole(extra), 'learn', whole(learn))
local life = 60000 + math.ceil(2 * math.max(lease, patience) / 1000)
if set.n > 0 then life = life + math.ceil((set.burst * set.p - have) / set.n / 1000) end
if drained then life = math.max(life, 86400000) end
call('PEXPIRE', state, whole(life))
if held > 0 then
  call('PEXPIRE', leases, whole(life))
  call('PEXPIRE', fences, whole(life))
end
if length > 0 then
  call('PEXPIRE', queue, whole(life))
  call('PEXPIRE', seen, whole(life))
end

local out = table.concat({'OK', whole(now), epoch, whole(set.version), whole(set.n), whole(set.p), whole(set.burst), whole(set.limit),
  whole(set.n > 0 and math.floor(have / set.p) or 0), whole(weightHeld()), whole(length), whole(#mine / 2)}, ' ')
if #mine > 0 then out = out .. ' ' .. table.concat(mine, ' ') end
if #answer > 0 then out = out .. ' ' .. table.concat(answer, ' ') end
call('SET', record, whole(batch) .. ' ' .. out, 'PX', 60000)
return out
