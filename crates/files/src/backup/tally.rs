//! Counts and hashes the bytes of an archive on their way.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::rc::Rc;

use rustix::io::Errno;
use sandshell_exec::space::Share;
use sha2::{Digest as _, Sha256};

/// The backups have all the bytes they may have: the error of a quota, which this is one of.
pub(super) const NO_ROOM: Errno = Errno::DQUOT;

/// Bytes so far, and their SHA-256.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) bytes: u64,
    hash: Sha256,
}

impl Tally {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hash.update(bytes);
    }

    /// The hash as hexadecimal digits.
    pub(super) fn hex(&self) -> String {
        let hash = self.hash.clone().finalize();
        hash.iter().fold(String::new(), |mut text, byte| {
            text.extend(char::from_digit(u32::from(byte >> 4), 16));
            text.extend(char::from_digit(u32::from(byte & 15), 16));
            text
        })
    }
}

/// Writes to a file and counts, as long as there is room.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    file: &'a File,
    share: &'a Share,
    pub(super) tally: Tally,
}

impl<'a> Writer<'a> {
    pub(super) fn new(file: &'a File, share: &'a Share) -> Self {
        Self {
            file,
            share,
            tally: Tally::default(),
        }
    }
}

impl Write for Writer<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let wanted = data.len() as u64;
        if !self.share.grow(wanted) {
            return Err(NO_ROOM.into());
        }
        let written = self.file.write(data);
        let bytes = *written.as_ref().unwrap_or(&0) as u64;
        self.share.shrink(wanted - bytes);
        let written = written?;
        self.tally.add(data.get(..written).unwrap_or(data));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads from a file and counts, for one who asks when all has been read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    file: &'a File,
    tally: Rc<RefCell<Tally>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a File, tally: Rc<RefCell<Tally>>) -> Self {
        Self { file, tally }
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.tally
            .borrow_mut()
            .add(buffer.get(..read).unwrap_or_default());
        Ok(read)
    }
}
