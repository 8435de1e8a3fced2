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
    }
}
