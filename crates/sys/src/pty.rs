//! Pseudo-terminals: a master for us, a slave for the program, and their size.
//!
//! Both come from the devpts that the master was opened in. The program gets its slave as a descriptor;
//! where it sees that devpts, it can also open it again by name.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt};
use rustix::termios::{
    InputModes, OptionalActions, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

/// The two ends of a pseudo-terminal.
#[derive(Debug)]
pub struct Pty {
    /// Ours; does not block.
    pub master: OwnedFd,
    /// The program's: to be its descriptors 0, 1 and 2.
    pub slave: OwnedFd,
}

/// The pseudo-terminal of this fresh master, in this size. Its slave belongs to whoever the thread that
/// opened the master acts for, so that their programs can open it by name.
pub fn open(master: OwnedFd, cols: u16, rows: u16) -> Result<Pty, Errno> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    unlockpt(&master)?;
    // Not opened by its path, which could name another one by now, or in another devpts.
    let slave = ioctl_tiocgptpeer(&master, flags)?;
    let mut modes = tcgetattr(&slave)?;
    // Erasing in a line that is being typed takes a character, not a byte.
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(&slave, OptionalActions::Now, &modes)?;
    // As a login does: others may write messages to it, not read what is typed.
    rustix::fs::fchmod(&slave, rustix::fs::Mode::from_raw_mode(0o620))?;
    rustix::io::ioctl_fionbio(&master, true)?;
    resize(&master, cols, rows)?;
    Ok(Pty { master, slave })
}

/// Changes the size. Programs in the foreground get SIGWINCH when it differs.
pub fn resize(master: impl AsFd, cols: u16, rows: u16) -> Result<(), Errno> {
    tcsetwinsize(
        master,
        Winsize {
            ws_col: cols,
            ws_row: rows,
            ws_xpixel: 0,
            ws_ypixel: 0,
        },
    )
}

/// Columns and rows.
pub fn size(terminal: impl AsFd) -> Result<(u16, u16), Errno> {
    tcgetwinsize(terminal).map(|size| (size.ws_col, size.ws_row))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_sizes_go_through() {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        let pty = open(master, 91, 17).unwrap();
        assert_eq!(size(&pty.slave), Ok((91, 17)));
        resize(&pty.master, 120, 40).unwrap();
        assert_eq!(size(&pty.slave), Ok((120, 40)));
        let mut buffer = [0; 16];
        assert_eq!(
            rustix::io::read(&pty.master, &mut buffer),
            Err(Errno::AGAIN)
        );
        assert_eq!(rustix::io::write(&pty.slave, b"hi\n"), Ok(3));
        let n = rustix::io::read(&pty.master, &mut buffer).unwrap();
        assert_eq!(buffer.get(..n), Some(&b"hi\r\n"[..]));
        drop(pty.slave);
        assert_eq!(rustix::io::read(&pty.master, &mut buffer), Err(Errno::IO));
    }
}
