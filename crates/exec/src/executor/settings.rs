//! What a sandbox was set to, seen from inside: where its commands start, and what it is called.

use std::io::Write as _;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use sandshell_isolate::plan::{self, HOSTNAME_FILE, HOSTS_FILE};

use super::Executor;
use crate::inside::Follow;
use crate::{StartError, error};

impl Executor {
    /// Refuses a directory that commands are to start in and their user cannot enter.
    pub async fn check_cwd(&self) -> Result<(), StartError> {
        let host = &self.0.host;
        let failed = |reason: String| StartError {
            step: error::CWD,
            reason,
        };
        let who = self.who(None).map_err(|error| failed(error.to_string()))?;
        let cwd = host.config.cwd.clone();
        // What is in it can be named by those only who may enter it.
        let found = host
            .inside
            .run(&who, move |root| root.find_dir(&cwd.join(".")));
        let found = found.await.map_err(|error| failed(error.to_string()))?;
        found.map(drop).map_err(|errno| {
            let (cwd, user) = (host.config.cwd.display(), &host.account.name);
            failed(format!("{user:?} cannot start in {cwd}: {errno}"))
        })
    }

    /// Writes the sandbox's name into the files that tell it, where they are still files.
    pub fn write_name(&self, name: &str) -> Result<(), Errno> {
        let root = self.0.host.inside.own_root();
        for (file, text) in [
            (HOSTNAME_FILE, format!("{name}\n")),
            (HOSTS_FILE, plan::hosts(name)),
        ] {
            let found = root.find(Path::new(file), Follow::No)?;
            let file = root.open(found, OFlags::WRONLY | OFlags::TRUNC)?;
            let written = std::fs::File::from(file).write_all(text.as_bytes());
            written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        }
        Ok(())
    }
}
