// SPDX-License-Identifier: MIT
//! rslock on tokio: one manager, and a guard for each acquisition. Its three tries would give up
//! under contention, so they are unbounded. Owns the use of the peer; workloads.rs the rest.
mod workloads;

use std::time::Duration;
use workloads::Options;

fn main() {
    let options = Options::read();
    let mut manager = rslock::LockManager::new(vec![options.address()]);
    let delay = if options.retry_ms > 0 {
        options.retry_ms
    } else {
        200
    };
    manager.set_retry(u32::MAX, Duration::from_millis(delay));
    let lease = Duration::from_millis(options.lease_ms);
    if options.renewed() {
        workloads::hold(options, move |name: String, held| {
            let manager = manager.clone();
            async move {
                let routine = async || {
                    held.send(()).ok();
                    std::future::pending::<()>().await
                };
                if let Err(why) = manager.using(name.as_bytes(), lease, routine).await {
                    eprintln!("bench: {name}: {why}");
                }
            }
        });
    }
    workloads::run(options, "rslock 0.10.0", move |name: String| {
        let manager = manager.clone();
        async move {
            let guard = manager
                .acquire(name.as_str(), lease)
                .await
                .map_err(|e| e.to_string())?;
            Ok(async move { guard.release().await })
        }
    });
}
