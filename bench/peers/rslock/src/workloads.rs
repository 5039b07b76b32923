// SPDX-License-Identifier: MIT
//! The workloads over a peer in Rust: each slot is a tokio task. Owns the command line and the
//! rows. Independent of the lock.
//!
//!     PROGRAM U|D|L|N|H|X --url URL [--slots N] [--seconds S] [--name KEY] [--variant V]
//!             [--retry-ms MS] [--lease-ms MS] [--hold-us US] [--pause-us US]
//!             [--rows FILE]
//!
//! Usual course: run() is given a function that acquires and returns the function that releases.
//! The rows (slot, asked, granted, released, done: 64-bit ns of CLOCK_MONOTONIC) and one line of
//! JSON are written at the end.
use std::collections::hash_map::RandomState;
use std::future::Future;
use std::hash::BuildHasher;
use std::io::{BufRead, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone)]
pub struct Options {
    workload: String,
    url: String,
    name: String,
    variant: String,
    rows: String,
    slots: usize,
    seconds: f64,
    hold_us: u64,
    pause_us: u64, // mean, before a slot acquires again
    pub retry_ms: u64, // 0: the peer's default
    pub lease_ms: u64,
}

type Row = [i64; 5];

fn fail(what: &str) -> ! {
    eprintln!("bench: {what}");
    std::process::exit(64);
}

impl Options {
    pub fn read() -> Options {
        let mut words = std::env::args().skip(1);
        let workload = words.next().unwrap_or_default();
        if !["U", "D", "L", "N", "H", "X"].contains(&workload.as_str()) {
            fail("usage: peer U|D|L|N|H|X --url URL [OPTION...]");
        }
        let mut options = Options {
            hold_us: 0,
            pause_us: 0,
            workload,
            url: String::new(),
            name: "bench".into(),
            variant: String::new(),
            rows: String::new(),
            slots: 1,
            seconds: 1.0,
            retry_ms: 0,
            lease_ms: 30000,
        };
        while let Some(word) = words.next() {
            let value = words
                .next()
                .unwrap_or_else(|| fail(&format!("{word}: no value")));
            let number = || -> f64 {
                value
                    .parse()
                    .unwrap_or_else(|_| fail(&format!("{word}: '{value}' is no number")))
            };
            match word.as_str() {
                "--url" => options.url = value,
                "--name" => options.name = value,
                "--variant" => options.variant = value,
                "--rows" => options.rows = value,
                "--slots" => options.slots = number() as usize,
                "--seconds" => options.seconds = number(),
                "--hold-us" => options.hold_us = number() as u64,
                "--pause-us" => options.pause_us = number() as u64,
                "--retry-ms" => options.retry_ms = number() as u64,
                "--lease-ms" => options.lease_ms = number() as u64,
                _ => fail(&format!("{word}: unknown")),
            }
        }
        options
    }

    /// Returns true if locks are to be held for longer than their leases.
    pub fn renewed(&self) -> bool {
        self.workload == "H"
    }

    /// Returns the URL in the form that the redis crate expects.
    pub fn address(&self) -> String {
        match self.url.strip_prefix("unix://") {
            Some(path) => format!("redis+unix://{path}"),
            None => format!("{}/", self.url),
        }
    }
}

fn clock(id: libc::clockid_t) -> i64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(id, &mut now) };
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

fn now() -> i64 {
    clock(libc::CLOCK_MONOTONIC)
}

fn say(line: String) {
    println!("{line}");
    std::io::stdout().flush().ok();
}

fn wait_for_go() {
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line).unwrap_or(0) == 0 {
        std::process::exit(1);
    }
}

struct Shared {
    options: Options,
    over: AtomicBool,
    errors: AtomicU64,
}

struct Slot {
    rows: Vec<Row>,
    current: Row,
}

async fn run_slot<A, F, R>(shared: Arc<Shared>, slot: Arc<Mutex<Slot>>, acquire: A)
where
    A: Fn(String) -> F,
    F: Future<Output = Result<R, String>>,
    R: Future<Output = ()>,
{
    let options = &shared.options;
    let number = slot.lock().unwrap().current[0];
    let name = if options.workload == "U" {
        format!("{}:{number}", options.name)
    } else {
        options.name.clone()
    };
    while !shared.over.load(Ordering::Relaxed) {
        slot.lock().unwrap().current = [number, now(), 0, 0, 0];
        match acquire(name.clone()).await {
            Ok(release) => {
                slot.lock().unwrap().current[2] = now();
                if options.hold_us > 0 {
                    tokio::time::sleep(Duration::from_micros(options.hold_us)).await;
                }
                let released = now();
                release.await;
                let mut slot = slot.lock().unwrap();
                slot.current[3] = released;
                slot.current[4] = now();
                let row = slot.current;
                slot.rows.push(row);
                slot.current = [number, 0, 0, 0, 0];
            }
            Err(why) => {
                if shared.errors.fetch_add(1, Ordering::Relaxed) == 0 {
                    eprintln!("first error: {why}");
                }
                if shared.errors.load(Ordering::Relaxed) > 100 {
                    return;
                }
            }
        }
        if options.workload == "D" {
            return;
        }
        if options.pause_us > 0 {
            let random = RandomState::new().hash_one(now()) % options.pause_us;
            tokio::time::sleep(Duration::from_micros(options.pause_us / 2 + random)).await;
        }
    }
}

fn write_rows(options: &Options, slots: &[Arc<Mutex<Slot>>]) -> usize {
    let mut rows: Vec<Row> = Vec::new();
    for slot in slots {
        let slot = slot.lock().unwrap();
        rows.extend(&slot.rows);
        if slot.current[1] != 0 {
            rows.push(slot.current);
        }
    }
    if !options.rows.is_empty() {
        let bytes: Vec<u8> = rows
            .iter()
            .flatten()
            .flat_map(|n| n.to_le_bytes())
            .collect();
        std::fs::write(&options.rows, bytes).unwrap_or_else(|e| fail(&e.to_string()));
    }
    rows.len()
}

async fn measure<A, F, R>(options: Options, version: &'static str, acquire: A)
where
    A: Fn(String) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<R, String>> + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    for _ in 0..100 {
        let name = format!("{}:warm:{}", options.name, std::process::id());
        acquire(name).await.unwrap_or_else(|why| fail(&why)).await;
    }
    let slots: Vec<_> = (0..options.slots)
        .map(|i| {
            Arc::new(Mutex::new(Slot {
                rows: Vec::with_capacity(1024),
                current: [i as i64, 0, 0, 0, 0],
            }))
        })
        .collect();
    let shared = Arc::new(Shared {
        options,
        over: AtomicBool::new(false),
        errors: AtomicU64::new(0),
    });
    say("{\"ready\": 1}".into());
    wait_for_go();
    let (start, cpu) = (now(), clock(libc::CLOCK_PROCESS_CPUTIME_ID));
    let tasks: Vec<_> = slots
        .iter()
        .map(|slot| tokio::spawn(run_slot(shared.clone(), slot.clone(), acquire.clone())))
        .collect();
    let all = async {
        for task in tasks {
            task.await.ok();
        }
    };
    let limit = Duration::from_secs_f64(shared.options.seconds);
    tokio::time::timeout(limit, all).await.ok();
    shared.over.store(true, Ordering::Relaxed);
    let (cpu, end) = (clock(libc::CLOCK_PROCESS_CPUTIME_ID) - cpu, now());
    let options = &shared.options;
    let rows = write_rows(options, &slots);
    say(format!(
        "{{\"workload\": \"{}\", \"variant\": \"{}\", \"slots\": {}, \"start_ns\": {start}, \
         \"seconds\": {:.6}, \"cpu_us\": {}, \"rows\": {rows}, \"errors\": {}, \
         \"version\": \"{version}\"}}",
        options.workload,
        options.variant,
        options.slots,
        (end - start) as f64 / 1e9,
        cpu / 1000,
        shared.errors.load(Ordering::Relaxed)
    ));
    std::process::exit(0);
}

async fn hold_one<A, F, R>(options: Options, acquire: A)
where
    A: Fn(String) -> F,
    F: Future<Output = Result<R, String>>,
{
    say("{\"ready\": 1}".into());
    wait_for_go();
    let _held = acquire(options.name.clone())
        .await
        .unwrap_or_else(|why| fail(&why));
    say(format!(
        "{{\"granted_us\": {}}}",
        clock(libc::CLOCK_REALTIME) / 1000
    ));
    std::io::stdin().lock().read_to_end(&mut Vec::new()).ok();
    std::process::exit(0);
}

/// Holds many locks until standard input ends. `keep` sends a message when it holds one.
pub fn hold<K, F>(options: Options, keep: K) -> !
where
    K: Fn(String, tokio::sync::oneshot::Sender<()>) -> F,
    F: Future<Output = ()> + 'static,
{
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let runtime = tokio::runtime::Runtime::new().unwrap_or_else(|e| fail(&e.to_string()));
    say("{\"ready\": 1}".into());
    wait_for_go();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut holding = Vec::new();
        for i in 0..options.slots {
            let (held, told) = tokio::sync::oneshot::channel();
            tokio::task::spawn_local(keep(format!("{}:{i}", options.name), held));
            holding.push(told);
        }
        for told in holding {
            told.await.unwrap_or_else(|_| fail("a lock is not held"));
        }
        say(format!("{{\"held\": {}}}", options.slots));
        tokio::task::spawn_blocking(|| {
            std::io::stdin().lock().read_to_end(&mut Vec::new()).ok();
            std::process::exit(0);
        })
        .await
        .ok();
    });
    std::process::exit(0);
}

/// Runs the workload of the command line.
pub fn run<A, F, R>(options: Options, version: &'static str, acquire: A)
where
    A: Fn(String) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<R, String>> + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let runtime = tokio::runtime::Runtime::new().unwrap_or_else(|e| fail(&e.to_string()));
    if options.workload == "X" {
        runtime.block_on(hold_one(options, acquire));
    } else {
        runtime.block_on(measure(options, version, acquire));
    }
}
