//! What isolation there is here, from a sandbox made for the question, as `sandshell run` makes one.

use sandshell_agent::Settings;
use sandshell_client::types::Protection;
use sandshell_isolate::launcher::Launcher;
use sandshell_isolate::plan::SANDBOX_USER;

use super::report::Isolation;
use crate::failure::Failure;
use crate::one_shot::{self, Wanted};
use crate::run::bounds::Bounds;

/// Makes a sandbox, reads its report and ends it.
pub(crate) fn probe() -> Isolation {
    Isolation::of(protections().map_err(|failure| failure.line()))
}

fn protections() -> Result<Vec<Protection>, Failure> {
    let launcher = Launcher::start().map_err(|error| Failure::ours(&error))?;
    let made = make(&launcher);
    launcher.finish();
    made
}

fn make(launcher: &Launcher) -> Result<Vec<Protection>, Failure> {
    let bounds = Bounds::default();
    let directory = one_shot::own_directory(launcher, false)?;
    let ids = one_shot::ids();
    let wanted = Wanted {
        ids,
        root: one_shot::default_root(&directory, ids, bounds.disk()?)?,
        limits: bounds.limits()?,
        settings: Settings {
            cwd: Some("/workspace".into()),
            user: Some(SANDBOX_USER.to_owned()),
            ..Settings::default()
        },
    };
    one_shot::launch(launcher, directory, wanted)
}
