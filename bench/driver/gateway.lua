-- SPDX-License-Identifier: MIT
-- A script for wrk: each request is for another user, so that no request waits for another. At
-- the end it prints the figures as one line of JSON. `what` (BENCH_REQUEST) is gift or healthz.

local what = os.getenv("BENCH_REQUEST")
local threads, number = 0, 0

function setup(thread)
    threads = threads + 1
    thread:set("id", threads)
end

function request()
    if what == "healthz" then
        return wrk.format("GET", "/healthz")
    end
    number = number + 1
    return wrk.format("POST", "/gift/u" .. id .. "-" .. number)
end

function done(summary, latency, requests)
    local errors = summary.errors
    io.write(string.format('{"requests": %d, "duration_us": %d, "p50_us": %d, ' ..
        '"p99_us": %d, "max_us": %d, "errors": %d}\n',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        latency.max, errors.connect + errors.read + errors.write + errors.status +
        errors.timeout))
end
