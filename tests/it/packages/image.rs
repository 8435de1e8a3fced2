//! The image that `deploy/Dockerfile` describes, read from its lines: no engine is needed to build it,
//! and no copy of it here can differ.

use std::fs;
use std::path::Path;

use super::ARCH;

/// What the lines say.
#[derive(Debug, Default)]
pub(super) struct Image {
    copies: Vec<(String, String)>,
    env: Vec<(String, String)>,
    entrypoint: Vec<String>,
}

impl Image {
    pub(super) fn read() -> Self {
        let path = crate::house::root().join("deploy/Dockerfile");
        Self::parse(&fs::read_to_string(path).unwrap())
    }

    /// A line that is not understood fails: the test would no longer build the image.
    fn parse(text: &str) -> Self {
        let mut image = Self::default();
        let lines = text.lines().map(str::trim);
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (word, rest) = line.split_once(' ').unwrap();
            match (word, rest) {
                ("FROM", "scratch") | ("ARG", "TARGETARCH") | ("EXPOSE", _) => {}
                ("COPY", paths) => {
                    let (from, to) = paths.split_once(' ').unwrap();
                    let from = from.replace("${TARGETARCH}", ARCH);
                    image.copies.push((from, to.to_owned()));
                }
                ("ENV", pair) => {
                    let (name, value) = pair.split_once('=').unwrap();
                    image.env.push((name.to_owned(), value.to_owned()));
                }
                ("ENTRYPOINT", list) => image.entrypoint = serde_json::from_str(list).unwrap(),
                _ => panic!("{line:?} is not understood here"),
            }
        }
        assert!(
            !image.copies.is_empty() && !image.entrypoint.is_empty(),
            "{image:?}"
        );
        image
    }

    /// Copies its files over a root, from the directory that an engine would be given.
    pub(super) fn copy_to(&self, root: &Path, context: &Path) {
        for (from, to) in &self.copies {
            let to = root.join(to.trim_start_matches('/'));
            fs::copy(context.join(from), to).unwrap();
        }
    }

    pub(super) fn env(&self) -> impl Iterator<Item = (&str, &str)> {
        self.env.iter().map(|(name, value)| (&**name, &**value))
    }

    pub(super) fn variable(&self, wanted: &str) -> &str {
        self.env()
            .find_map(|(name, value)| (name == wanted).then_some(value))
            .unwrap_or_else(|| panic!("the image does not set {wanted}"))
    }

    pub(super) fn entrypoint(&self) -> &[String] {
        &self.entrypoint
    }
}
