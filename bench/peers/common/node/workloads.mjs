// SPDX-License-Identifier: MIT
/*
 * The workloads, for peers in Node: each slot is an asynchronous loop in one process. Owns the
 * command line and the rows. Independent of the lock.
 *
 *     PROGRAM U|D|L|N|H|X --url URL [--slots N] [--seconds S] [--name KEY] [--variant V]
 *             [--retry-ms MS] [--lease-ms MS] [--hold-us US] [--pause-us US]
 *             [--rows FILE]
 *
 * Usual course: a peer calls main() with a function that acquires and returns the function that
 * releases. The rows (slot, asked, granted, released, done: 64-bit ns of CLOCK_MONOTONIC) and one
 * line of JSON are written at the end.
 */
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

const now = process.hrtime.bigint;

function readOptions() {
    const text = (value) => ({ type: "string", default: value });
    const { values, positionals } = parseArgs({
        allowPositionals: true,
        options: {
            url: text(""), slots: text("1"), seconds: text("1"), name: text("bench"),
            variant: text(""), "retry-ms": text("0"), "lease-ms": text("30000"),
            "hold-us": text("0"), "pause-us": text("0"), rows: text(""),
        },
    });
    const workload = positionals[0] ?? "";
    if (!/^[UDLNHX]$/.test(workload) || !values.url) {
        console.error("usage: peer U|D|L|N|H|X --url URL [OPTION...]");
        process.exit(64);
    }
    return {
        workload, url: values.url, name: values.name, variant: values.variant,
        rows: values.rows, slots: Number(values.slots), seconds: Number(values.seconds),
        retryMs: Number(values["retry-ms"]), leaseMs: Number(values["lease-ms"]),
        renewed: workload === "H",
        holdMs: Number(values["hold-us"]) / 1000,
        pauseMs: Number(values["pause-us"]) / 1000, // mean, before a slot acquires again
    };
}

/** Returns the options for an ioredis client. */
export function connection(options) {
    if (options.url.startsWith("unix://")) return { path: options.url.slice(7) };
    const url = new URL(options.url);
    return { host: url.hostname, port: Number(url.port) };
}

/** Returns the options for each server of redis-quorum://host:port,host:port,host:port, or for
 * the only one. */
export function connections(options) {
    const [scheme, list] = options.url.split("://");
    if (scheme !== "redis-quorum") return [connection(options)];
    return list.split(",").map((host) => connection({ url: `redis://${host}` }));
}

function say(line) {
    process.stdout.write(JSON.stringify(line) + "\n");
}

/** A growing array of rows: slot, asked, granted, released, done. */
class Rows {
    constructor() {
        this.values = new BigInt64Array(5 << 16);
        this.used = 0;
    }
    add(...row) {
        if (this.used + 5 > this.values.length) {
            const larger = new BigInt64Array(this.values.length * 2);
            larger.set(this.values);
            this.values = larger;
        }
        for (const value of row) this.values[this.used++] = value;
    }
}

async function runSlot(run, number, acquire) {
    const { options } = run;
    const name = options.workload === "U" ? `${options.name}:${number}` : options.name;
    const slot = { asked: 0n, granted: 0n };
    run.slots[number] = slot;
    while (!run.over) {
        try {
            slot.granted = 0n;
            slot.asked = now();
            const release = await acquire(name);
            slot.granted = now();
            if (options.holdMs) await sleep(options.holdMs);
            const released = now();
            await release();
            run.rows.add(BigInt(number), slot.asked, slot.granted, released, now());
            slot.asked = 0n;
        } catch (error) {
            if (run.over) return;
            if (run.errors++ === 0) console.error("first error:", error);
            if (run.errors > 100) return;
        }
        if (options.workload === "D") return;
        if (options.pauseMs) await sleep(options.pauseMs * (0.5 + Math.random()));
    }
}

/** Holds one lock (X) or many (H). */
async function hold(options, acquire, line) {
    say({ ready: 1 });
    await line;
    if (options.workload === "X") {
        await acquire(options.name);
        say({ granted_us: Math.round((performance.timeOrigin + performance.now()) * 1000) });
    } else {
        const names = Array.from({ length: options.slots }, (_, i) => `${options.name}:${i}`);
        await Promise.all(names.map(acquire));
        say({ held: options.slots });
    }
    await new Promise(() => {}); // until standard input ends
}

export async function main(version, open) {
    const options = readOptions();
    const input = createInterface({ input: process.stdin });
    const line = new Promise((resolve) => input.once("line", resolve));
    input.once("close", () => process.exit(0)); // the driver has gone or is done
    const acquire = await open(options);
    if (/[HX]/.test(options.workload)) await hold(options, acquire, line);
    for (let i = 0; i < 500; i++) {
        const release = await acquire(`${options.name}:warm:${process.pid}`);
        await release();
    }
    const run = { options, rows: new Rows(), slots: [], errors: 0, over: false };
    say({ ready: 1 });
    await line;
    const cpu = process.cpuUsage();
    const start = now();
    const slots = Array.from({ length: options.slots }, (_, i) => runSlot(run, i, acquire));
    await Promise.race([Promise.all(slots), sleep(options.seconds * 1000)]);
    run.over = true;
    const used = process.cpuUsage(cpu);
    const end = now();
    run.slots.forEach((slot, i) => {
        if (slot.asked) run.rows.add(BigInt(i), slot.asked, slot.granted, 0n, 0n);
    });
    const rows = run.rows.values.subarray(0, run.rows.used);
    if (options.rows) writeFileSync(options.rows, new Uint8Array(rows.buffer, 0, rows.byteLength));
    say({
        workload: options.workload, variant: options.variant, slots: options.slots,
        start_ns: Number(start), seconds: Number(end - start) / 1e9,
        cpu_us: used.user + used.system, rows: rows.length / 5, errors: run.errors, version,
    });
    process.exit(0);
}
