//! The program. All of it is in the library beside, where fuzz targets reach its readers.

use std::process::ExitCode;

fn main() -> ExitCode {
    sandshell_cli::main()
}

/// How we are called from anywhere: by our name where that finds this very program, else by our path.
#[cfg(target_os = "linux")]
pub(crate) fn own_name() -> String {
    const NAME: &str = "sandshell";
    let Ok(own) = std::env::current_exe() else {
        return NAME.to_owned();
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(NAME))
        .find(|file| file.is_file());
    match found.and_then(|file| file.canonicalize().ok()) {
        Some(file) if file == own => NAME.to_owned(),
        _ => own.display().to_string(),
    }
}
