//! Paths, as this dialect means them: those that do not begin at the root begin at the user's home.

/// A path of ours. The home of the sandbox's own user is where its commands start.
pub(crate) fn of(path: &str, user: Option<&str>) -> String {
    let below = match path.strip_prefix('~') {
        Some("") => "",
        Some(rest) if rest.starts_with('/') => rest.trim_start_matches('/'),
        _ if path.starts_with('/') => return path.to_owned(),
        _ => path,
    };
    match (user, below) {
        (None, "") => ".".to_owned(),
        (None, below) => below.to_owned(),
        (Some("root"), below) => format!("/root/{below}"),
        (Some(user), below) => format!("/home/{user}/{below}"),
    }
}

/// A path of theirs, of one of ours: without the dots that stand for nothing.
pub(crate) fn shown(path: &str) -> String {
    let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
    format!("/{}", parts.collect::<Vec<_>>().join("/"))
}

/// Where a link at a path leads, by what is written in it.
pub(crate) fn led_to(link: &str, target: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let above = link.rsplit_once('/').map_or("", |(above, _)| above);
    let start = if target.starts_with('/') { "" } else { above };
    for part in start.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_the_users() {
        for (path, user, right) in [
            ("/a/b", None, "/a/b"),
            ("a/b", None, "a/b"),
            ("", None, "."),
            ("~", None, "."),
            ("~/a", None, "a"),
            ("~a", None, "~a"),
            ("~/a", Some("root"), "/root/a"),
            ("a", Some("ann"), "/home/ann/a"),
        ] {
            assert_eq!(of(path, user), right, "{path} {user:?}");
        }
        assert_eq!(shown("/home/user/."), "/home/user");
        assert_eq!(shown("/home//a/./.b/"), "/home/a/.b");
        assert_eq!(shown("/"), "/");
        assert_eq!(led_to("/a/b/link", "../c"), "/a/c");
        assert_eq!(led_to("/a/b/link", "/x/./y"), "/x/y");
        assert_eq!(led_to("/link", "../../y"), "/y");
    }
}
