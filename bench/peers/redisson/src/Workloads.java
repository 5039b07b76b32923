// SPDX-License-Identifier: MIT

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

/**
 * The workloads over a peer in Java: each slot is a thread. Owns the command line, the threads
 * and the rows. Independent of the lock.
 *
 * <pre>
 * Peer U|D|L|N|M|H|X|F --url URL [--slots N] [--seconds S] [--name KEY] [--variant V]
 *      [--retry-ms MS] [--lease-ms MS] [--hold-us US] [--pause-us US]
 *      [--names N] [--of N] [--rows FILE]
 * </pre>
 *
 * Usual course: run() is given the locks, whose acquire returns the function that releases. The
 * rows (slot, asked, granted, released, done: 64-bit ns of CLOCK_MONOTONIC) and one line of JSON
 * are written at the end.
 */
final class Workloads {
    /** Waits for a lock. Returns the function that releases it. */
    interface Locks {
        Runnable acquire(String name);

        /** M: acquires all of them at once. */
        default Runnable acquireAll(String[] names) {
            throw new UnsupportedOperationException();
        }
    }

    static final class Options {
        char workload;
        String url, rows, name = "bench", variant = "";
        int slots = 1;
        double seconds = 1;
        long leaseMs = 30000, holdUs = 0;
        int names = 1, of = 1; // M: names acquired at once, and names to draw from
        int pauseUs = 0; // mean, before a slot acquires again
    }

    private static final int WARM_UP_MS = 4000; // for the just-in-time compiler
    private static final int HOLDERS = 16; // threads that acquire the locks to hold
    private static volatile boolean over;
    private static final AtomicInteger errors = new AtomicInteger();

    private Workloads() {
    }

    private static Options read(String[] words) {
        Options options = new Options();
        if (words.length % 2 != 1 || !words[0].matches("[UDLNMHXF]"))
            throw new IllegalArgumentException("usage: Peer U|D|L|N|M|H|X|F --url URL [OPTION...]");
        options.workload = words[0].charAt(0);
        for (int i = 1; i < words.length; i += 2) {
            String value = words[i + 1];
            switch (words[i]) {
            case "--url" -> options.url = value;
            case "--rows" -> options.rows = value;
            case "--name" -> options.name = value;
            case "--variant" -> options.variant = value;
            case "--slots" -> options.slots = Integer.parseInt(value);
            case "--seconds" -> options.seconds = Double.parseDouble(value);
            case "--lease-ms" -> options.leaseMs = Long.parseLong(value);
            case "--pause-us" -> options.pauseUs = Integer.parseInt(value);
            case "--names" -> options.names = Integer.parseInt(value);
            case "--of" -> options.of = Integer.parseInt(value);
            case "--hold-us" -> options.holdUs = Long.parseLong(value);
            default -> throw new IllegalArgumentException(words[i] + ": unknown");
            }
        }
        return options;
    }

    /** A slot: one user of locks. */
    private static final class Slot {
        final int number;
        long[] rows = new long[5 * 1024];
        int used;
        volatile long asked, granted;

        Slot(int number) {
            this.number = number;
        }

        void once(Options options, Locks locks, String name) throws InterruptedException {
            String[] drawn = options.workload == 'M' ? draw(options) : null;
            long holdUs = options.holdUs;
            granted = 0;
            asked = System.nanoTime();
            Runnable release = drawn != null ? locks.acquireAll(drawn) : locks.acquire(name);
            granted = System.nanoTime();
            if (holdUs > 0)
                TimeUnit.MICROSECONDS.sleep(holdUs);
            long released = System.nanoTime();
            release.run();
            add(asked, granted, released, System.nanoTime());
            asked = 0;
        }

        synchronized void add(long asked, long granted, long released, long done) {
            if (used + 5 > rows.length)
                rows = Arrays.copyOf(rows, rows.length * 2);
            long[] row = {number, asked, granted, released, done};
            System.arraycopy(row, 0, rows, used, 5);
            used += 5;
        }

        void loop(Options options, Locks locks) {
            String name = options.workload == 'U' ? options.name + ":" + number : options.name;
            while (!over) {
                try {
                    once(options, locks, name);
                    if (options.pauseUs > 0)
                        TimeUnit.MICROSECONDS.sleep(options.pauseUs / 2
                            + ThreadLocalRandom.current().nextInt(options.pauseUs));
                } catch (Exception error) {
                    if (over)
                        return;
                    if (errors.getAndIncrement() == 0)
                        System.err.println("first error: " + error);
                    if (errors.get() > 100)
                        return;
                }
                if (options.workload == 'D')
                    return;
            }
        }
    }

    /** M: draws different names; all of them, if it is as many, in their order. */
    private static String[] draw(Options options) {
        java.util.stream.IntStream numbers = options.names == options.of
            ? java.util.stream.IntStream.range(0, options.names)
            : ThreadLocalRandom.current().ints(0, options.of).distinct().limit(options.names);
        return numbers.mapToObj(number -> options.name + ":" + number).toArray(String[]::new);
    }

    private static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static void start(Runnable work, CountDownLatch done) {
        Thread thread = new Thread(() -> {
            work.run();
            done.countDown();
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static String[] ownNames(String own, int count) {
        String[] names = new String[count];
        Arrays.setAll(names, i -> own + ":" + i);
        return names;
    }

    private static void warmUp(Options options, Locks locks) throws InterruptedException {
        int threads = Math.min(options.slots, 16);
        CountDownLatch done = new CountDownLatch(threads);
        long end = System.nanoTime() + WARM_UP_MS * 1_000_000L;
        String name = options.name + ":warm:" + ProcessHandle.current().pid() + ":";
        for (int i = 0; i < threads; i++) {
            String own = name + i;
            start(() -> {
                while (System.nanoTime() < end)
                    if (options.workload == 'M')
                        locks.acquireAll(ownNames(own, options.names)).run();
                    else
                        locks.acquire(own).run();
            }, done);
        }
        done.await();
    }

    private static long writeRows(Options options, Slot[] slots) throws IOException {
        int count = 0;
        for (Slot slot : slots) {
            synchronized (slot) {
                if (slot.asked != 0)
                    slot.add(slot.asked, slot.granted, 0, 0);
                count += slot.used;
            }
        }
        ByteBuffer bytes = ByteBuffer.allocate(count * 8 + 5 * 8 * slots.length)
            .order(ByteOrder.LITTLE_ENDIAN);
        for (Slot slot : slots) {
            synchronized (slot) {
                bytes.asLongBuffer().put(slot.rows, 0, slot.used);
                bytes.position(bytes.position() + slot.used * 8);
            }
        }
        if (options.rows != null)
            Files.write(Path.of(options.rows), Arrays.copyOf(bytes.array(), bytes.position()));
        return bytes.position() / 40;
    }

    private static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) java.lang.management
            .ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static void measure(Options options, String version, Locks locks,
                                BufferedReader input) throws Exception {
        warmUp(options, locks);
        Slot[] slots = new Slot[options.slots];
        CountDownLatch go = new CountDownLatch(1);
        CountDownLatch done = new CountDownLatch(options.slots);
        for (int i = 0; i < slots.length; i++) {
            Slot slot = slots[i] = new Slot(i);
            start(() -> {
                try {
                    go.await();
                } catch (InterruptedException error) {
                    return;
                }
                slot.loop(options, locks);
            }, done);
        }
        say("{\"ready\": 1}");
        if (input.readLine() == null)
            System.exit(1);
        long cpu = cpuNs();
        long begin = System.nanoTime();
        go.countDown();
        done.await((long) (options.seconds * 1e6), TimeUnit.MICROSECONDS);
        over = true;
        cpu = cpuNs() - cpu;
        long end = System.nanoTime();
        long rows = writeRows(options, slots);
        say(String.format(Locale.ROOT,
            "{\"workload\": \"%s\", \"variant\": \"%s\", \"slots\": %d, \"start_ns\": %d, "
            + "\"seconds\": %.6f, \"cpu_us\": %d, \"rows\": %d, \"errors\": %d, "
            + "\"version\": \"%s\"}",
            options.workload, options.variant, options.slots, begin, (end - begin) / 1e9,
            cpu / 1000, rows, errors.get(), version));
        Runtime.getRuntime().halt(0);
    }

    private static void holdOne(Options options, Locks locks) {
        locks.acquire(options.name);
        java.time.Instant now = java.time.Instant.now();
        say("{\"granted_us\": " + (now.getEpochSecond() * 1_000_000 + now.getNano() / 1000) + "}");
    }

    private static void holdMany(Options options, Locks locks) throws InterruptedException {
        CountDownLatch done = new CountDownLatch(HOLDERS);
        for (int i = 0; i < HOLDERS; i++) {
            int first = i;
            start(() -> {
                for (int lock = first; lock < options.slots; lock += HOLDERS)
                    locks.acquire(options.name + ":" + lock);
            }, done);
        }
        done.await();
        say("{\"held\": " + options.slots + "}");
    }

    /** Acquires and releases one lock, and prints the failure if there is one. */
    private static void take(Locks locks, String name) {
        try {
            Runnable release = locks.acquire(name);
            say("{\"granted_ns\": " + System.nanoTime() + "}");
            release.run();
        } catch (RuntimeException error) {
            say("{\"failed\": \"" + error.getClass().getSimpleName() + "\"}");
        }
    }

    /** F: holds one lock, and takes others one after the other. */
    private static void failOver(Options options, Locks locks) {
        locks.acquire(options.name);
        say("{\"held\": 1}");
        start(() -> {
            try {
                for (int i = 0;; i++) {
                    take(locks, options.name + ":" + i);
                    TimeUnit.MICROSECONDS.sleep(options.pauseUs / 2
                        + ThreadLocalRandom.current().nextInt(options.pauseUs + 1));
                }
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }, new CountDownLatch(1));
    }

    static void run(String[] words, String version, Function<Options, Locks> open)
        throws Exception {
        Options options = read(words);
        Locks locks = open.apply(options);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        if ("HXF".indexOf(options.workload) < 0) {
            measure(options, version, locks, input);
            return;
        }
        say("{\"ready\": 1, \"version\": \"" + version + "\"}");
        input.readLine();
        if (options.workload == 'X')
            holdOne(options, locks);
        else if (options.workload == 'F')
            failOver(options, locks);
        else
            holdMany(options, locks);
        while (input.readLine() != null)
            continue;
        Runtime.getRuntime().halt(0);
    }
}
