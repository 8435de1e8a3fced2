//! Compression of archives.

use std::io::{self, BufReader, Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use sandshell_types::ArchiveFormat;
use zstd::zstd_safe::CParameter;

use crate::FileError;

const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Level 3 is zstd's own default: about as fast as a disk.
const ZSTD_LEVEL: i32 = 3;

/// Bytes packed in one go in the background; several are in memory at a time.
const JOB_BYTES: u32 = 1 << 20;

/// Largest window that a frame may ask for: 128 MiB, as zstd's own tool allows.
const WINDOW_LOG: u32 = 27;

/// Compresses what is written to it.
pub enum Compression<W: Write> {
    /// Passes bytes through.
    None(W),
    /// gzip.
    Gzip(GzEncoder<W>),
    /// zstd, with a checksum.
    Zstd(zstd::Encoder<'static, W>),
}

impl<W: Write> Compression<W> {
    /// For a format.
    pub fn new(format: ArchiveFormat, output: W) -> io::Result<Self> {
        Ok(match format {
            ArchiveFormat::Tar => Self::None(output),
            ArchiveFormat::TarGz => Self::Gzip(GzEncoder::new(output, flate2::Compression::new(6))),
            ArchiveFormat::TarZst => {
                let mut encoder = zstd::Encoder::new(output, ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
        })
    }

    /// With one thread of zstd's own beside ours, which packs while we read.
    #[must_use]
    pub fn in_background(mut self) -> Self {
        if let Self::Zstd(encoder) = &mut self {
            // Without threads in the library it packs in ours.
            let _ = encoder.multithread(1);
            let _ = encoder.set_parameter(CParameter::JobSize(JOB_BYTES));
        }
        self
    }

    /// Writes the end of the format.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::None(output) => Ok(output),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Compression<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::None(output) => output.write(data),
            Self::Gzip(encoder) => encoder.write(data),
            Self::Zstd(encoder) => encoder.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Recognises the compression of what comes in, and undoes it.
pub fn decompress<'a>(mut input: impl Read + 'a) -> Result<Box<dyn Read + 'a>, FileError> {
    let mut first = [0_u8; 4];
    let mut length = 0;
    while length < first.len() {
        match input.read(first.get_mut(length..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(&error)),
        }
    }
    let head = first.get(..length).unwrap_or_default().to_vec();
    let zstd = head.starts_with(ZSTD);
    let gzip = head.starts_with(GZIP);
    let whole = io::Cursor::new(head).chain(input);
    Ok(if zstd {
        let mut decoder = zstd::Decoder::new(whole).map_err(|error| broken(&error))?;
        decoder
            .window_log_max(WINDOW_LOG)
            .map_err(|error| broken(&error))?;
        Box::new(decoder)
    } else if gzip {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(
            64 << 10,
            whole,
        )))
    } else {
        Box::new(whole)
    })
}

/// The input cannot be read as what it says it is.
pub(super) fn broken(error: &io::Error) -> FileError {
    let reason = match error.kind() {
        io::ErrorKind::UnexpectedEof => "its compressed data is cut off".to_owned(),
        _ => error.to_string(),
    };
    FileError::Archive { reason }
}
