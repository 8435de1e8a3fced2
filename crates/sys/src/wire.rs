//! A tiny byte format: little-endian numbers and length-prefixed strings.
//!
//! Used between agent and init, which are always the same binary, so it needs no versions; it does
//! need to refuse anything malformed, because init must never trust a length.

/// The bytes end before the value, or a length is impossible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed message")]
pub struct Malformed;

/// Appends values to a buffer.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// An empty buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a number.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a number.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a signed number.
    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends a string.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.u32(value.len() as u32);
        self.0.extend_from_slice(value);
        self
    }

    /// The bytes.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Takes values off a slice.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    /// Takes a number.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(
            self.take(4)?.try_into().map_err(|_| Malformed)?,
        ))
    }

    /// Takes a number.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(
            self.take(8)?.try_into().map_err(|_| Malformed)?,
        ))
    }

    /// Takes a signed number.
    pub fn i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_le_bytes(
            self.take(4)?.try_into().map_err(|_| Malformed)?,
        ))
    }

    /// Takes a string.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let n = self.u32()? as usize;
        self.take(n)
    }

    /// A count of items that need at least `item_size` bytes each, so that a forged count cannot
    /// make the caller reserve memory.
    pub fn count(&mut self, item_size: usize) -> Result<usize, Malformed> {
        let n = self.u32()? as usize;
        if n.checked_mul(item_size)
            .is_none_or(|needed| needed > self.0.len())
        {
            return Err(Malformed);
        }
        Ok(n)
    }

    /// Refuses anything left over.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_was_written() {
        let mut w = Writer::new();
        w.u32(7).u64(u64::MAX).i32(-3).bytes(b"a\0b").bytes(b"");
        let bytes = w.finish();
        let mut r = Reader::new(&bytes);
        assert_eq!(r.u32(), Ok(7));
        assert_eq!(r.u64(), Ok(u64::MAX));
        assert_eq!(r.i32(), Ok(-3));
        assert_eq!(r.bytes(), Ok(&b"a\0b"[..]));
        assert_eq!(r.bytes(), Ok(&b""[..]));
        assert_eq!(r.end(), Ok(()));
    }

    #[test]
    fn refuses_forged_lengths() {
        let mut w = Writer::new();
        w.u32(u32::MAX);
        let bytes = w.finish();
        assert_eq!(Reader::new(&bytes).bytes(), Err(Malformed));
        assert_eq!(Reader::new(&bytes).count(1), Err(Malformed));
        assert_eq!(Reader::new(&bytes).u64(), Err(Malformed));
    }
}
