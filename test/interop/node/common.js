// SPDX-License-Identifier: MIT
// The parts that the peers on Node.js share: the commands that ../peers.py describes, the
// counter file and the rounds. Independent of the library that makes the lock, which is passed
// as `locks`:
//   acquire(name, leaseMs, waitMs) -> a lock, or null     token(lock) -> its text
//   extend(lock, leaseMs) -> a lock, or null              release(lock) -> was it held
// Usual course: a line on stdin, a call of `locks`, a line on stdout.
import { readFileSync, openSync, writeSync, closeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';

export const pollMs = 5;

const say = (...words) => process.stdout.write(words.join(' ') + '\n');

const nowUs = () => process.hrtime.bigint() / 1000n;

function writeCounter(path, value) {
    const file = openSync(path, 'r+');
    writeSync(file, String(value).padStart(20, '0') + '\n', 0);
    closeSync(file);
}

class Peer {
    constructor(locks) {
        this.locks = locks;
        this.lock = null;
    }

    async acquire(name, leaseMs, waitMs) {
        const lock = await this.locks.acquire(name, Number(leaseMs), Number(waitMs));
        if (!lock)
            return Number(waitMs) === 0 ? 'busy -' : 'timeout';
        this.lock = lock;
        return 'held ' + this.locks.token(lock);
    }

    async release() {
        const lock = this.lock;
        this.lock = null;
        return await this.locks.release(lock) ? 'released' : 'gone';
    }

    async extend(leaseMs) {
        const extended = await this.locks.extend(this.lock, Number(leaseMs));
        if (!extended)
            return 'gone';
        this.lock = extended;
        return 'extended';
    }

    async round(name, leaseMs, holdMs, path, mode) {
        const asked = nowUs();
        if (mode === 'lock')
            await this.acquire(name, leaseMs, -1);
        say('held -');
        const value = Number(readFileSync(path, 'utf8')) + 1;
        await sleep(Number(holdMs));
        writeCounter(path, value);
        const done = nowUs();
        return `wrote ${value} ${asked} ${done} ` +
            (mode === 'lock' ? await this.release() : 'released');
    }
}

const commands = ['acquire', 'release', 'extend', 'round'];

export async function obey(title, locks) {
    const peer = new Peer(locks);
    say('ready', title);
    for await (const line of createInterface({ input: process.stdin })) {
        const [command, ...words] = line.split(' ');
        try {
            say(commands.includes(command) ? await peer[command](...words)
                                           : 'error unknown command: ' + command);
        } catch (error) {
            say('error', String(error).replaceAll('\n', ' '));
        }
    }
    process.exit(0);
}
