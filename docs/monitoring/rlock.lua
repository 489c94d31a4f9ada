-- For redis_exporter --script: the numbers of INFO rlock. It touches no key and changes nothing.
local values = {}
for name, value in redis.call('INFO', 'rlock'):gmatch('(rlock_[%w_]+):(%d+)') do
    table.insert(values, name)
    table.insert(values, value)
end
return values
