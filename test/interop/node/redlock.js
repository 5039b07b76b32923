// SPDX-License-Identifier: MIT
// node-redlock, with one master or several, as a peer of the interop tests. The first argument is
// its major version, 4 or 5, and the others are the masters' sockets. Independent of lockwire.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import Redlock5, { ExecutionError } from 'redlock';
import { obey, pollMs } from './common.js';

const Redlock4 = createRequire(import.meta.url)('redlock4');

const forEver = 1e9;
const tryOnce = { retryCount: 0 };
const waiting = waitMs => ({
    retryCount: waitMs < 0 ? forEver : Math.ceil(waitMs / pollMs),
    retryDelay: pollMs,
    retryJitter: 0,
});

// Both versions throw an exception of this kind if too few masters agreed.
async function orNull(promise, Refusal) {
    try {
        return await promise;
    } catch (error) {
        if (error instanceof Refusal)
            return null;
        throw error;
    }
}

// A retry of the library keeps its votes of a minority, and counts them as another client's: two
// clients that retry would both wait until the ends of their leases. So each try here is an
// acquisition of its own.
async function acquireBy(attempt, waitMs) {
    const until = performance.now() + (waitMs < 0 ? Infinity : waitMs);
    for (;;) {
        const lock = await attempt();
        if (lock || performance.now() >= until)
            return lock;
        await sleep(pollMs * (0.5 + Math.random()));
    }
}

function version5(masters) {
    const redlock = new Redlock5(masters, tryOnce);
    redlock.on('error', () => {}); // the library reports every refused try by this event
    return {
        acquire: (name, leaseMs, waitMs) =>
            acquireBy(() => orNull(redlock.acquire([name], leaseMs), ExecutionError), waitMs),
        token: lock => lock.value,
        release: async lock => await orNull(lock.release(), ExecutionError) !== null,
        extend: (lock, leaseMs) => orNull(lock.extend(leaseMs), ExecutionError),
    };
}

function version4(masters) {
    const redlock = new Redlock4(masters, tryOnce);
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
const [major, ...paths] = process.argv.slice(2);
// Without a connection a command fails at once, so that a dead master does not delay the others'
// votes.
const masters = paths.map(path => new Redis({ path, enableOfflineQueue: false }));
await Promise.all(masters.map(master => once(master, 'ready')));
for (const master of masters)
    master.on('error', () => {});
const { redlock, redlock4 } = pinned.dependencies;
if (major === '4')
    await obey('node-redlock ' + redlock4.split('@')[1], version4(masters));
else
    await obey('node-redlock ' + redlock, version5(masters));
