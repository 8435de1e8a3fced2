//! The execution core in this process, without HTTP: what the network costs is the difference.

use anyhow::{Result, ensure};
use sandshell_exec::{Config, Executor};
use sandshell_isolate::InitHandle;
use sandshell_types::{Encoding, SessionRequest};

use crate::exec::{argv, shell};
use crate::floor;
use crate::measure::{RUNS, repeat_async};
use crate::report::Report;
use crate::sessions::command;

const SECTION: &str = "in-process";
const SESSION: &str = "session: true";
const CREATE: &str = "session: create, exec, end, back to back";
const EXEC: &str = "exec: true, back to back";
const ARGV: &str = "exec: argv /bin/true, back to back";

/// To be called while this process has one thread.
pub(crate) fn run(report: &mut Report, init: InitHandle, count: usize) -> Result<()> {
    // One thread, as in the agent.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let state = tempfile::TempDir::with_prefix("sandshell-bench-")?;
    let config = Config::new(state.path().to_owned());
    let measured = runtime.block_on(async {
        let executor = Executor::start(init, config).await?;
        let measured = measure(&executor, count).await;
        executor.shutdown().await;
        measured
    })?;
    for (name, run) in measured {
        report.add_run(SECTION, name, run);
    }
    for name in [SESSION, CREATE, EXEC] {
        report.compare(SECTION, name, floor::BASH);
    }
    report.compare(SECTION, ARGV, floor::TRUE);
    Ok(())
}

type Measured = Vec<(&'static str, crate::measure::Run)>;

async fn measure(executor: &Executor, count: usize) -> Result<Measured> {
    let mut measured = Vec::new();
    for _ in 0..RUNS {
        let (session, _) = executor.create_session(SessionRequest::default()).await?;
        let run = repeat_async(count * 4, async || {
            let (running, _) = session.exec(command("true"))?;
            ensure!(running.result(Encoding::Auto).await?.exit_code == 0);
            Ok(())
        });
        measured.push((SESSION, run.await?));
        executor.end_session(session.id().as_str()).await?;
        let run = repeat_async(count / 4, async || {
            let (session, _) = executor.create_session(SessionRequest::default()).await?;
            let (running, _) = session.exec(command("true"))?;
            ensure!(running.result(Encoding::Auto).await?.exit_code == 0);
            executor.end_session(session.id().as_str()).await?;
            Ok(())
        });
        measured.push((CREATE, run.await?));
        for (name, request) in [(EXEC, shell("true")), (ARGV, argv(&["/bin/true"]))] {
            let run = repeat_async(count, async || {
                let (process, _) = executor.exec(request.clone()).await?;
                ensure!(process.exec_result(Encoding::Auto).await?.exit_code == 0);
                Ok(())
            });
            measured.push((name, run.await?));
        }
    }
    Ok(measured)
}
