// SPDX-License-Identifier: MIT
// redis-semaphore's Mutex as a peer of the interop tests. Independent of lockwire. It puts
// `mutex:` before every name, which cannot be turned off, so the tests add it to the key's name.
import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import { Mutex } from 'redis-semaphore';
import { obey, pollMs } from './common.js';

const prefix = 'mutex:';
const pinned = JSON.parse(readFileSync(new URL('package.json', import.meta.url)));
const redis = new Redis({ path: process.argv[2] });

async function acquire(name, leaseMs, waitMs) {
    if (!name.startsWith(prefix))
        throw new Error(`its keys start with ${prefix}, this one does not: ${name}`);
    const mutex = new Mutex(redis, name.slice(prefix.length), {
        lockTimeout: leaseMs,
        refreshInterval: 0, // no renewal: the tests need leases that end
        retryInterval: pollMs,
        acquireTimeout: waitMs <= 0 ? Infinity : waitMs,
        acquireAttemptsLimit: waitMs === 0 ? 1 : Infinity,
    });
    return await mutex.tryAcquire() ? { name, mutex } : null;
}

// The library's release returns nothing, so the key is read before it.
async function release({ name, mutex }) {
    const held = await redis.get(name) === mutex.identifier;
    await mutex.release();
    return held;
}

await redis.ping();
await obey('redis-semaphore ' + pinned.dependencies['redis-semaphore'], {
    acquire,
    release,
    token: lock => lock.mutex.identifier,
    extend: () => { throw new Error('it cannot extend on demand'); },
});
