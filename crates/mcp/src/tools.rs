//! The tools: one struct each, by what they are about.

mod code;
mod commands;
mod files;
mod ports;
mod processes;
mod sandboxes;

use std::sync::OnceLock;

use crate::tool::Entry;

/// All tools, in the order of the list: as they are first needed.
pub(crate) fn all() -> &'static [Entry] {
    static ALL: OnceLock<Vec<Entry>> = OnceLock::new();
    ALL.get_or_init(|| {
        vec![
            Entry::of::<sandboxes::CreateSandbox>(),
            Entry::of::<sandboxes::ListSandboxes>(),
            Entry::of::<sandboxes::RemoveSandbox>(),
            Entry::of::<commands::RunCommand>(),
            Entry::of::<commands::RunInSession>(),
            Entry::of::<commands::InterruptSession>(),
            Entry::of::<processes::StartProcess>(),
            Entry::of::<processes::ReadOutput>(),
            Entry::of::<processes::SendInput>(),
            Entry::of::<processes::KillProcess>(),
            Entry::of::<files::ReadFile>(),
            Entry::of::<files::WriteFile>(),
            Entry::of::<files::ListFiles>(),
            Entry::of::<code::RunCode>(),
            Entry::of::<ports::ExposePort>(),
        ]
    })
}
