//! Not for people: the launcher of sandboxes, started by whoever wants some.

use std::process::ExitCode;

use sandshell_isolate::launcher::{SOCKET_FD, serve};
use sandshell_isolate::stage::Seat;

use crate::failure::Failure;
use crate::logs;

pub(crate) fn run() -> ExitCode {
    let Some(socket) = sandshell_sys::packet::inherited(SOCKET_FD) else {
        return Failure::usage("`sandshell launcher` is started by the hub, not by hand")
            .hint("run `sandshell serve`, or `sandshell run -- COMMAND`")
            .report();
    };
    // Of the agents, too, which are forks.
    sandshell_sys::memory::share_one_heap();
    // On a thread of its own: the seed of hashes, which all forks would share, goes with it.
    let prepared = std::thread::spawn(sandshell_agent::prepare).join();
    if prepared.is_err() {
        return ExitCode::from(125);
    }
    // What the making needed and freed would be copied by every fork.
    sandshell_sys::memory::trim();
    let code = serve(socket, serve_agent);
    ExitCode::from(u8::try_from(code).unwrap_or(125))
}

/// The life of an agent, in a fork of the launcher.
fn serve_agent(seat: Seat) -> i32 {
    logs::start_in_file(&seat.state_dir.join("agent.log"));
    // One thread, as in `sandshell agent`.
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "no runtime");
            return 125;
        }
    };
    let served = runtime.block_on(sandshell_agent::serve_seat(seat));
    runtime.shutdown_background();
    served.unwrap_or_else(|error| {
        tracing::error!(error = &error as &dyn std::error::Error, "cannot serve");
        125
    })
}
