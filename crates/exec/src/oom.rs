//! Tells when the kernel kills for want of memory, where a group counts it.

use std::os::fd::OwnedFd;

use sandshell_sys::cgroup::Group;
use sandshell_sys::reactor;
use sandshell_types::Happening;
use tokio::io::Interest;

use crate::events::Events;

/// Watches the sandbox's group. Without a memory controller there is nothing to watch.
pub(crate) fn watch(group: &Group, events: Events) {
    let Ok(counters) = group.open_file("memory.events") else {
        tracing::debug!("the sandbox's group does not count memory, so OOM kills are not told");
        return;
    };
    tokio::spawn(async move {
        if let Err(error) = attend(counters, &events).await {
            tracing::warn!(%error, "OOM kills are not told any more");
        }
    });
}

async fn attend(counters: OwnedFd, events: &Events) -> std::io::Result<()> {
    let counters = reactor::watch(counters, Interest::PRIORITY)?;
    let mut known = kills(counters.get_ref())?;
    loop {
        // Cleared before reading: a change while it is read makes it ready again.
        counters.ready(Interest::PRIORITY).await?.clear_ready();
        let now = kills(counters.get_ref())?;
        if now > known {
            events.publish(Happening::Oom {
                killed: now - known,
            });
        }
        known = now;
    }
}

fn kills(counters: &OwnedFd) -> std::io::Result<u64> {
    let mut text = [0; 512];
    let read = rustix::io::pread(counters, &mut text, 0)?;
    let text = String::from_utf8_lossy(text.get(..read).unwrap_or_default());
    Ok(parse(&text))
}

fn parse(text: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill "))
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn kills_are_read_and_attempts_are_not() {
        let text = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
        assert_eq!(super::parse(text), 2);
        assert_eq!(super::parse(""), 0);
    }
}
