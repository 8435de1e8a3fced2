//! How much one answer with a list holds.
//!
//! Owns the bounds: so many items, and so many bytes of their JSON. Names, paths and texts come from
//! whatever runs in a sandbox, so that a number of items alone bounds nothing.

use std::io;

use serde::Serialize;

/// Bytes of JSON after which a page ends; the next one goes on.
pub const PAGE_BYTES: usize = 8 << 20;

/// Bytes of JSON after which an answer without pages ends, and says so.
pub const ANSWER_BYTES: usize = 32 << 20;

/// The room left in an answer. The item that fills it is still in it, so that there is always one.
#[derive(Debug, Clone)]
pub struct Room {
    items: usize,
    bytes: usize,
}

impl Room {
    /// Of a page.
    pub fn of_page(items: usize) -> Self {
        let bytes = PAGE_BYTES;
        Self { items, bytes }
    }

    /// Of an answer that has no pages.
    pub fn of_answer(items: usize) -> Self {
        let bytes = ANSWER_BYTES;
        Self { items, bytes }
    }

    /// Of what is sent item by item and held nowhere.
    pub fn of_stream(items: usize) -> Self {
        let bytes = usize::MAX;
        Self { items, bytes }
    }

    /// Whether it takes no further item.
    pub fn is_full(&self) -> bool {
        self.items == 0 || self.bytes == 0
    }

    /// How many of these it takes.
    pub fn fitting(mut self, items: &[impl Serialize]) -> usize {
        let fits = |item: &&_| {
            let fits = !self.is_full();
            self.take(*item);
            fits
        };
        items.iter().take_while(fits).count()
    }

    /// Counts an item that is in the answer.
    pub fn take(&mut self, item: &impl Serialize) {
        self.items = self.items.saturating_sub(1);
        if self.bytes < usize::MAX {
            self.bytes = self.bytes.saturating_sub(size(item));
        }
    }
}

/// Bytes of the JSON of a value.
fn size(item: &impl Serialize) -> usize {
    struct Counter(usize);
    impl io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    // What cannot be written as JSON fails where the answer is written.
    let _ = serde_json::to_writer(&mut counter, item);
    counter.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_full_of_items_or_of_bytes() {
        let mut few = Room::of_page(2);
        few.take(&"a");
        assert!(!few.is_full());
        few.take(&"b");
        assert!(few.is_full());

        // Six bytes of JSON each.
        let large = "\u{1}".repeat(PAGE_BYTES / 12 + 1);
        let mut room = Room::of_page(1000);
        room.take(&large);
        assert!(!room.is_full());
        room.take(&large);
        assert!(room.is_full());

        let three = [large.as_str(), &large, &large];
        assert_eq!(Room::of_page(1000).fitting(&three), 2);
        assert_eq!(Room::of_page(1).fitting(&three), 1);

        let mut stream = Room::of_stream(1000);
        for _ in 0..100 {
            stream.take(&large);
        }
        assert!(!stream.is_full());
    }
}
