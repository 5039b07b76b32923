// SPDX-License-Identifier: MIT
// node-redlock, with one master, as a peer of the interop tests: major version 5 (the
// default) or, with a second argument of 4, the older one. Must not know lockwire.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Redis } from 'ioredis';
import Redlock5, { ExecutionError } from 'redlock';
import { obey, pollMs } from './common.js';

const Redlock4 = createRequire(import.meta.url)('redlock4');

const forEver = 1e9;
const once = { retryCount: 0 };
const waiting = waitMs => ({
    retryCount: waitMs < 0 ? forEver : Math.ceil(waitMs / pollMs),
    retryDelay: pollMs,
    retryJitter: 0,
});

// Both versions say by an exception of this kind that too few masters agreed.
async function orNull(promise, Refusal) {
    try {
        return await promise;
    } catch (error) {
        if (error instanceof Refusal)
            return null;
        throw error;
    }
}

function version5(redis) {
    const redlock = new Redlock5([redis], once);
    redlock.on('error', () => {}); // it tells every refused try there
    return {
        acquire: (name, leaseMs, waitMs) =>
            orNull(redlock.acquire([name], leaseMs, waiting(waitMs)), ExecutionError),
        token: lock => lock.value,
        release: async lock => await orNull(lock.release(), ExecutionError) !== null,
        extend: (lock, leaseMs) => orNull(lock.extend(leaseMs), ExecutionError),
    };
}

function version4(redis) {
    const redlock = new Redlock4([redis], once);
    const { LockError } = Redlock4;
    return {
        acquire: (name, leaseMs, waitMs) =>
            orNull(redlock.lockWithOptions(name, leaseMs, waiting(waitMs)), LockError),
        token: lock => lock.value,
        release: async lock => await orNull(lock.unlock(), LockError) !== null,
        extend: (lock, leaseMs) => orNull(lock.extend(leaseMs), LockError),
    };
}

const pinned = JSON.parse(readFileSync(new URL('package.json', import.meta.url)));
const [path, major = '5'] = process.argv.slice(2);
const redis = new Redis({ path });
await redis.ping();
const { redlock, redlock4 } = pinned.dependencies;
if (major === '4')
    await obey('node-redlock ' + redlock4.split('@')[1], version4(redis));
else
    await obey('node-redlock ' + redlock, version5(redis));
