//! What a target makes of its bytes: small numbers first, then the rest.

/// Takes values off the bytes of an input; what is not there is zero or empty.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    pub(crate) fn number(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    pub(crate) fn large(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    pub(crate) fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rest, cut where a first byte says: so long are the pieces, by turns.
    pub(crate) fn pieces(mut self) -> (&'a [u8], Vec<&'a [u8]>) {
        let sizes = [self.byte(), self.byte()].map(|size| usize::from(size % 32) + 1);
        let mut rest = self.0;
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let size = sizes[pieces.len() % 2].min(rest.len());
            let (piece, after) = rest.split_at(size);
            pieces.push(piece);
            rest = after;
        }
        (self.0, pieces)
    }
}

/// The parts of an input between lines of two dashes, for targets that read several texts.
pub(crate) fn sections<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    const MARK: &[u8] = b"\n--\n";
    let mut rest = data;
    std::array::from_fn(
        |_| match rest.windows(MARK.len()).position(|window| window == MARK) {
            Some(at) => {
                let section = &rest[..at];
                rest = &rest[at + MARK.len()..];
                section
            }
            None => std::mem::take(&mut rest),
        },
    )
}
