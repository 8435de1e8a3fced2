//! `sandshell man`: a manual page for each command, made from the command line itself.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::help;

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Directory to write them to: sandshell.1, sandshell-exec.1 and so on; made when missing.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(own: &ManArguments) -> Result<ExitCode, Failure> {
    let mut root = Arguments::command();
    root.build();
    std::fs::create_dir_all(&own.dir)
        .and_then(|()| write(&root, &own.dir))
        .map(|()| ExitCode::SUCCESS)
        .map_err(|error| {
            let what = format!("{} cannot be written to", own.dir.display());
            Failure::local(what, &error).hint("--dir takes a directory of yours")
        })
}

/// The pages of a command and of those below it.
fn write(command: &clap::Command, dir: &Path) -> std::io::Result<()> {
    let shown = |command: &&clap::Command| !command.is_hide_set();
    for below in command.get_subcommands().filter(shown) {
        write(below, dir)?;
    }
    let man = Man::new(command.clone())
        .source(concat!("sandshell ", env!("CARGO_PKG_VERSION")))
        .manual("Sandshell");
    let mut page = Vec::new();
    man.render(&mut page)?;
    let examples = command.get_before_help().map(ToString::to_string);
    let mut more = Roff::new();
    if let Some((_, lines)) = examples.as_deref().and_then(|text| text.split_once('\n')) {
        as_it_is(&mut more, "EXAMPLES", lines);
    }
    if command.get_name() == "sandshell" {
        for (_, text) in help::TOPICS {
            let (title, lines) = text.split_once('\n').unwrap_or((text, ""));
            as_it_is(&mut more, &title.to_uppercase(), lines.trim_start());
        }
    }
    more.to_writer(&mut page)?;
    std::fs::write(dir.join(man.get_filename()), page)
}

/// A section whose lines stay lines.
fn as_it_is(page: &mut Roff, title: &str, lines: &str) {
    page.control("SH", [title]).control("nf", []);
    for line in lines.trim_end().lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
}
