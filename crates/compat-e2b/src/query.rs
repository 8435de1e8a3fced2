//! Query strings.

/// The pairs of a query, decoded.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        })
}

/// The value of a name, if it is there.
pub(crate) fn value(query: Option<&str>, name: &str) -> Option<String> {
    pairs(query.unwrap_or_default())
        .find(|(given, _)| given == name)
        .map(|(_, value)| value)
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        match first {
            b'+' => bytes.push(b' '),
            b'%' => match after.split_at_checked(2) {
                Some((digits, after)) if hex(digits).is_some() => {
                    bytes.extend(hex(digits));
                    rest = after;
                }
                _ => bytes.push(b'%'),
            },
            other => bytes.push(other),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded() {
        let found: Vec<_> = pairs("a=b+c&d=%C3%A4%2F&&e&f=%zz").collect();
        let right = [("a", "b c"), ("d", "ä/"), ("e", ""), ("f", "%zz")];
        let right = right.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found, right);
    }
}
