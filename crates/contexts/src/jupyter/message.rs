//! Messages of the Jupyter protocol: their parts, and the signature over them.

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Stands between routing and message.
const DELIMITER: &[u8] = b"<IDS|MSG>";

/// A message from a kernel.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) kind: String,
    /// The id of the request it belongs to.
    pub(crate) parent: String,
    pub(crate) content: Value,
}

/// What all messages of one kernel share.
#[derive(Debug)]
pub(crate) struct Sealer {
    key: String,
    session: String,
    next: u64,
}

impl Sealer {
    pub(crate) fn new(key: String, session: String) -> Self {
        Self {
            key,
            session,
            next: 0,
        }
    }

    /// A request as frames, and its id.
    pub(crate) fn seal(&mut self, kind: &str, content: &Value) -> (Vec<Vec<u8>>, String) {
        self.next += 1;
        let id = format!("{}-{}", self.session, self.next);
        let header = json!({
            "msg_id": id, "session": self.session, "username": "sandshell",
            "date": jiff::Timestamp::now().to_string(), "msg_type": kind, "version": "5.3",
        });
        let parts: Vec<Vec<u8>> = [&header, &json!({}), &json!({}), content]
            .into_iter()
            .map(|part| part.to_string().into_bytes())
            .collect();
        let signature = self.sign(parts.iter().map(Vec::as_slice));
        let mut frames = vec![DELIMITER.to_vec(), signature.into_bytes()];
        frames.extend(parts);
        (frames, id)
    }

    /// A message out of its frames; `None` when it is not one, or not signed with our key.
    pub(crate) fn open(&self, frames: &[Bytes]) -> Option<Message> {
        let at = frames.iter().position(|frame| frame == DELIMITER)?;
        let [signature, header, parent, metadata, content, ..] = frames.get(at + 1..)? else {
            return None;
        };
        let parts = [header, parent, metadata, content];
        let expected = self.sign(parts.iter().map(|part| &part[..]));
        if expected.as_bytes() != &signature[..] {
            return None;
        }
        let header: Value = serde_json::from_slice(header).ok()?;
        let parent: Value = serde_json::from_slice(parent).ok()?;
        let text = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
        Some(Message {
            kind: text(&header, "msg_type"),
            parent: text(&parent, "msg_id"),
            content: serde_json::from_slice(content).ok()?,
        })
    }

    /// HMAC-SHA256 in hexadecimal.
    fn sign<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> String {
        // Our keys are shorter than a block.
        let mut block = [0; 64];
        for (to, from) in block.iter_mut().zip(self.key.as_bytes()) {
            *to = *from;
        }
        let mut inner = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x36));
        for part in parts {
            inner.update(part);
        }
        let outer = Sha256::new_with_prefix(block.map(|byte| byte ^ 0x5c))
            .chain_update(inner.finalize())
            .finalize();
        let mut text = String::with_capacity(64);
        for byte in outer {
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_rfc_4231() {
        let sealer = Sealer::new("Jefe".to_owned(), String::new());
        assert_eq!(
            sealer.sign([b"what do ya want ".as_slice(), b"for nothing?"].into_iter()),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn what_is_sealed_opens_and_what_is_changed_does_not() {
        let mut sealer = Sealer::new("key".to_owned(), "s".to_owned());
        let (frames, id) = sealer.seal("execute_request", &json!({"code": "1"}));
        let mut frames: Vec<Bytes> = frames.into_iter().map(Bytes::from).collect();
        assert!(id.starts_with("s-"));
        let message = sealer.open(&frames).unwrap();
        assert_eq!(message.kind, "execute_request");
        assert_eq!(message.content["code"], "1");
        frames[5] = Bytes::from_static(b"{\"code\":\"2\"}");
        assert!(sealer.open(&frames).is_none());
    }
}
