// SPDX-License-Identifier: MIT
// redis-semaphore's Mutex over one ioredis client, with an object for each acquisition. Waiting
// has no time limit.
import { createRequire } from "node:module";
import { Redis } from "ioredis";
import { Mutex } from "redis-semaphore";
import { connection, main } from "../common/workloads.mjs";

const require = createRequire(import.meta.url);
const version = (name) => `${name} ${require(`./node_modules/${name}/package.json`).version}`;

main(`${version("redis-semaphore")}, ${version("ioredis")}`, (options) => {
    const client = new Redis(connection(options));
    const settings = {
        lockTimeout: options.leaseMs,
        acquireTimeout: Number.POSITIVE_INFINITY,
        ...(options.retryMs ? { retryInterval: options.retryMs } : {}),
    };
    return async (name) => {
        const mutex = new Mutex(client, name, settings);
        await mutex.acquire();
        return () => mutex.release();
    };
});
