-- For wrk: posts the messages of a list in turn, and prints what was found as one line of JSON.
-- wrk ... URL -- LIST PATH; each line of LIST is a file.

local requests, last = {}, 0

function init(args)
  for name in io.lines(args[1]) do
    local file = assert(io.open(name, 'rb'))
    local body = file:read('*a')
    file:close()
    requests[#requests + 1] = wrk.format('POST', args[2], {['Content-Type'] = 'message/rfc822'}, body)
  end
end

function request()
  last = last % #requests + 1
  return requests[last]
end

function done(summary, _, _)
  local errors = summary.errors
  io.write(string.format('found {"requests": %d, "microseconds": %d, "status": %d, "broken": %d}\n',
    summary.requests, summary.duration, errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
