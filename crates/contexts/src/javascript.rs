//! JavaScript and TypeScript on their way to Node.

use sandshell_types::RunError;

/// The code as Node's console evaluates it.
pub(crate) fn prepare(code: &str, _typescript: bool) -> Result<String, RunError> {
    Ok(code.to_owned())
}
