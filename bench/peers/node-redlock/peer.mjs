// SPDX-License-Identifier: MIT
// node-redlock over an ioredis client for each server; its ten tries would give up under
// contention, so they are unbounded. Variants: v5 (the beta that its documentation describes), v4.
import { createRequire } from "node:module";
import { Redis } from "ioredis";
import Redlock5 from "redlock";
import Redlock4 from "redlock-4";
import { connections, main } from "../common/workloads.mjs";

const require = createRequire(import.meta.url);
const version = (name) =>
    `${name} ${require(`./node_modules/${name}/package.json`).version.replace(/^v/, "")}`;

main([version("redlock"), version("redlock-4"), version("ioredis")].join(", "), (options) => {
    const clients = connections(options).map((one) => new Redis(one));
    const settings = {
        retryCount: -1,
        ...(options.retryMs ? { retryDelay: options.retryMs, retryJitter: 0 } : {}),
    };
    if (options.variant === "v4") {
        const redlock = new Redlock4(clients, settings);
        return async (name) => {
            const lock = await redlock.lock(name, options.leaseMs);
            return () => lock.unlock();
        };
    }
    const redlock = new Redlock5(clients, settings);
    redlock.on("error", () => {}); // called for each refused try, too
    if (options.renewed) { // the library renews a lock only while a routine runs under it
        return (name) => new Promise((resolve, reject) => {
            redlock.using([name], options.leaseMs, () => new Promise(() => resolve()))
                .catch(reject);
        });
    }
    return async (name) => {
        const lock = await redlock.acquire([name], options.leaseMs);
        return () => lock.release();
    };
});
