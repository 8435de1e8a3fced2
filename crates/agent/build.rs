//! Makes the page of the explorer: one file with its style and script in it, compressed once, and the
//! policy that lets a browser run just that script. And embeds the `OpenAPI` document (`build/document.rs`).

use std::io::Write as _;
use std::path::Path;
use std::{env, fs, io};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};

#[path = "build/document.rs"]
mod document;

fn main() -> io::Result<()> {
    let source = |name: &str| {
        let path = Path::new("explorer").join(name);
        println!("cargo::rerun-if-changed={}", path.display());
        fs::read_to_string(path)
    };
    let (style, script) = (source("explorer.css")?, source("explorer.js")?);
    let page = source("explorer.html")?
        .replace("{{style}}", &style)
        .replace("{{script}}", &script);
    let allow = |text: &str| format!("'sha256-{}'", BASE64.encode(Sha256::digest(text)));
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        allow(&script),
        allow(&style),
    );
    // Without a time, so that the same sources make the same bytes.
    let mut small = GzBuilder::new().write(Vec::new(), Compression::best());
    small.write_all(page.as_bytes())?;
    let small = small.finish()?;

    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets OUT_DIR"))?;
    let out = Path::new(&out);
    fs::write(out.join("explorer.html"), &page)?;
    fs::write(out.join("explorer.html.gz"), small)?;
    fs::write(out.join("explorer.policy"), policy)?;
    document::embed("agent-v1.json")
}
