//! What isolation there is here, from a sandbox made for the question, as `sandshell run` makes one.

use sandshell_agent::Settings;
use sandshell_isolate::launcher::Launcher;
use sandshell_isolate::plan::SANDBOX_USER;

use super::report::Isolation;
use crate::failure::Failure;
use crate::one_shot;

/// Makes a sandbox, reads its report and ends it.
pub(crate) fn probe() -> Isolation {
    Isolation::of(protections().map_err(|failure| failure.line()))
}

fn protections() -> Result<Vec<sandshell_client::types::Protection>, Failure> {
    let launcher = Launcher::start().map_err(|error| Failure::ours(&error))?;
    let directory = one_shot::own_directory().map_err(|error| Failure::ours(&error))?;
    let settings = Settings {
        cwd: Some("/workspace".into()),
        user: Some(SANDBOX_USER.to_owned()),
        ..Settings::default()
    };
    let made = one_shot::launch(&launcher, directory.clone(), settings);
    launcher.finish();
    // The launcher removes what it knows of; one that failed early may not have heard of it.
    let _ = std::fs::remove_dir_all(directory);
    made
}
