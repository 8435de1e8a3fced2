//! The program. All of it is in the library beside, where fuzz targets reach its readers.

use std::process::ExitCode;

fn main() -> ExitCode {
    sandshell_cli::main()
}
