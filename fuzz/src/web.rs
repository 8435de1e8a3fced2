//! HTTP and its neighbours: ranges and dates, heads on their way through the proxy, the first bytes of
//! connections out, names of hosts, questions to the resolver, forms, and names that are their own right.

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::header::{CONTENT_TYPE, COOKIE};
use http::{HeaderMap, HeaderValue, Method, Request};
use sandshell_agent::fuzzing::{
    Ranged, date, date_of, dns_question, inside_path, range, strip_cookie,
};
use sandshell_agent::parts::take_parameter;
use sandshell_compat::Form;
use sandshell_compat_e2b::{Key, Signature, named_in};
use sandshell_hub::PreviewDomain;
use sandshell_hub::egress::{Host, Policy};
use sandshell_hub::fuzzing::{first_bytes, preview_label, preview_name};
use sandshell_types::{NetworkMode, NetworkSpec};

use crate::input::Input;
use crate::place::runtime;

/// The one range of RFC 9110 in our own words: what it asks for, if it is one.
fn range_by_the_standard(text: &str, size: u64) -> Option<Ranged> {
    let set = text.strip_prefix("bytes=")?;
    let (first, last) = set.split_once('-')?;
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(first) || !digits(last) || first.len() > 18 || last.len() > 18 {
        return None;
    }
    let number = |text: &str| text.parse::<u64>().ok();
    Some(match (number(first), number(last)) {
        (None, None) => Ranged::All,
        (None, Some(suffix)) if suffix == 0 || size == 0 => Ranged::Outside,
        (None, Some(suffix)) => Ranged::Part(size.saturating_sub(suffix)..size),
        (Some(first), Some(last)) if last < first => Ranged::All,
        (Some(first), _) if first >= size => Ranged::Outside,
        (Some(first), last) => Ranged::Part(first..last.map_or(size, |last| size.min(last + 1))),
    })
}

/// A range lies in its file and is the one that was asked for; a date is written as it was read.
pub(crate) fn ranges(data: &[u8]) {
    let mut input = Input(data);
    let size = match input.byte() % 3 {
        0 => u64::from(input.byte()),
        1 => u64::from(input.number()),
        _ => input.large(),
    };
    let Ok(text) = std::str::from_utf8(input.0) else {
        return;
    };
    let found = range(text, size);
    if let Ranged::Part(part) = &found {
        assert!(
            part.start < part.end && part.end <= size,
            "{text:?} of {size}"
        );
    }
    if let Some(expected) = range_by_the_standard(text, size) {
        assert_eq!(found, expected, "{text:?} of {size}");
    }
    if let Some(seconds) = date(text)
        && let Some(written) = date_of(seconds)
    {
        assert_eq!(date(&written), Some(seconds));
    }
    let _ = date_of(size.cast_signed());
}

/// Heads on their way inside: our own cookies and tokens stay here, and nothing else is touched.
pub(crate) fn proxied_head(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (query, cookies) = text.split_once('\n').unwrap_or((&text, ""));
    let path = inside_path("/x", Some(query));
    assert!(path.starts_with("/x") && path.len() <= query.len() + 3);
    if !query.contains("port_token=") {
        assert_eq!(path, format!("/x?{query}"));
    }
    assert_eq!(inside_path("/x", path.strip_prefix("/x?")), path);

    let mut headers = HeaderMap::new();
    for line in cookies.lines() {
        if let Ok(value) = HeaderValue::from_str(line) {
            headers.append(COOKIE, value);
        }
    }
    strip_cookie(&mut headers);
    for value in headers.get_all(COOKIE) {
        let theirs = value.as_bytes().split(|byte| *byte == b';');
        for cookie in theirs {
            assert!(!cookie.trim_ascii().starts_with(b"sandshell_port_"));
        }
    }
    let once = headers.clone();
    strip_cookie(&mut headers);
    assert_eq!(headers, once);

    if let Ok(request) = Request::get(format!("http://h/p?{query}")).body(()) {
        let (mut parts, ()) = request.into_parts();
        let before = parts.uri.query().unwrap_or_default().to_owned();
        let taken = take_parameter(&mut parts, "ticket", "tk_");
        let after = parts.uri.query().unwrap_or_default().to_owned();
        match taken {
            Some(ticket) => {
                assert!(ticket.starts_with("tk_") && before.contains(&ticket));
                assert!(!after.split('&').any(|pair| pair.starts_with("ticket=tk_")));
                assert_eq!((parts.uri.host(), parts.uri.path()), (Some("h"), "/p"));
            }
            None => assert_eq!(after, before),
        }
    }
}

/// What a client speaks is the same however its bytes arrive, and a host that is named is a host.
pub(crate) fn first_words(data: &[u8]) {
    let (whole, pieces) = Input(data).pieces();
    let mut end = 0;
    let ends: Vec<usize> = pieces
        .iter()
        .map(|piece| {
            end += piece.len();
            end
        })
        .collect();
    let at_once = first_bytes(whole, [whole.len()].into_iter().filter(|end| *end > 0));
    assert_eq!(at_once, first_bytes(whole, ends));
}

/// A host has one form, and an allow list lets nothing pass that is not on it.
pub(crate) fn hosts(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.lines();
    let asked = lines.next().unwrap_or_default();
    if let Ok(host) = Host::parse(asked) {
        let shown = host.to_string();
        assert_eq!(Host::parse(&shown).as_ref(), Ok(&host));
        assert!(!shown.contains(|c: char| c.is_whitespace() || "/@\\%#?".contains(c)));
        if let Some(name) = host.name() {
            let last = name.rsplit('.').next().unwrap_or_default();
            assert!(
                !last.bytes().all(|byte| byte.is_ascii_digit()),
                "{name:?} may be an address"
            );
        }
        let with_port = format!("{shown}:8080");
        assert_eq!(
            Host::parse_with_port(&with_port),
            Ok((host.clone(), Some(8080)))
        );
        let network = NetworkSpec {
            mode: NetworkMode::Allow,
            allow: lines.map(str::to_owned).collect(),
        };
        if let Ok(policy) = Policy::parse(&network, &[])
            && policy.check(&host, 443).is_ok()
        {
            let rule = |entry: &String| {
                let entry = entry.to_ascii_lowercase();
                let entry = entry.strip_suffix(":443").unwrap_or(&entry);
                let entry = entry.strip_suffix('.').unwrap_or(entry);
                match entry.strip_prefix("*.") {
                    Some(above) => shown.ends_with(&format!(".{above}")),
                    None => entry == shown || Host::parse(entry).as_ref() == Ok(&host),
                }
            };
            assert!(
                network.allow.iter().any(rule),
                "{host} passes {:?}",
                network.allow
            );
        }
    }
    if let Ok(domain) = asked.parse::<PreviewDomain>() {
        let shown = domain.to_string();
        assert!(
            shown
                .parse::<PreviewDomain>()
                .is_ok_and(|again| again.to_string() == shown)
        );
    }
}

/// A question's name is what stands in it.
pub(crate) fn dns(data: &[u8]) {
    let Some((name, question)) = dns_question(data) else {
        return;
    };
    assert!(data.starts_with(question) && question.len() <= 260);
    if let Some(name) = name {
        let mut wire = Vec::new();
        for label in name.split('.') {
            wire.push(label.len() as u8);
            wire.extend_from_slice(label.as_bytes());
        }
        wire.push(0);
        let asked = &question[..question.len() - 4];
        assert!(asked.eq_ignore_ascii_case(&wire), "{name:?}");
    }
}

async fn parts(body: Body) -> Result<Vec<(Option<String>, Option<String>, Vec<u8>)>, String> {
    let kind = HeaderValue::from_static("multipart/form-data; boundary=x");
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, kind)]);
    let mut form = Form::of(&headers, body).map_err(|_| "no form".to_owned())?;
    let mut read = Vec::new();
    while let Some(field) = form.next().await.map_err(|error| error.to_string())? {
        let (name, file) = (
            field.name().map(str::to_owned),
            field.file_name().map(str::to_owned),
        );
        let mut pieces = std::pin::pin!(form.pieces(field));
        let mut content = Vec::new();
        while let Some(piece) = pieces.next().await {
            content.extend_from_slice(&piece.map_err(|error| error.to_string())?);
        }
        read.push((name, file, content));
    }
    Ok(read)
}

/// A form is read the same however it arrives, and no part is more than the body.
pub(crate) fn forms(data: &[u8]) {
    let (whole, pieces) = Input(data).pieces();
    let pieces: Vec<_> = pieces
        .into_iter()
        .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)))
        .collect();
    let (at_once, in_pieces) = runtime(|runtime| {
        runtime.block_on(async {
            let at_once = parts(Body::from(whole.to_vec())).await;
            (
                at_once,
                parts(Body::from_stream(stream::iter(pieces))).await,
            )
        })
    });
    if let (Ok(at_once), Ok(in_pieces)) = (&at_once, &in_pieces) {
        assert_eq!(at_once, in_pieces);
        let total: usize = at_once.iter().map(|(_, _, content)| content.len()).sum();
        assert!(total <= whole.len());
    }
    assert_eq!(
        at_once.is_ok(),
        in_pieces.is_ok(),
        "{at_once:?} {in_pieces:?}"
    );
}

const SECRET: [u8; 32] = [7; 32];

/// A name or a token opens what it was made for, and nothing that was not made opens anything.
pub(crate) fn rights(data: &[u8]) {
    let mut input = Input(data);
    let (port, minute) = (input.number().max(1), u32::from(input.number()));
    let Ok(text) = std::str::from_utf8(input.0) else {
        return;
    };
    if let Some((port, sandbox, Some(minute))) = preview_name(&SECRET, text) {
        assert_eq!(preview_label(&SECRET, port, &sandbox, minute), text);
    }
    let label = preview_label(&SECRET, port, text, minute);
    assert_eq!(
        preview_name(&SECRET, &label),
        Some((port, text.to_owned(), Some(minute)))
    );
    let other = preview_name(&[8; 32], &label).and_then(|(_, _, until)| until);
    assert_eq!(other, None, "another's key opens it");

    let key = Key::new(SECRET);
    assert_eq!(key.opens("box", text), None, "{text:?} was made up");
    let _ = named_in(text);
    for method in [Method::GET, Method::POST] {
        if let Ok(Some(signature)) = Signature::of(&method, text) {
            let _ = (signature.is_well_formed(), signature.is_in_time());
            let made = sandshell_types::Timestamp::UNIX_EPOCH;
            assert!(!key.signed("box", made, &signature), "{text:?} was made up");
        }
    }
}
