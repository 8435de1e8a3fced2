use super::*;
use crate::plot::is_well_formed;

const FIGURES: &str = include_str!("tests/figures.json");
const BEFORE: &str = include_str!("tests/before.md");
const AFTER: &str = include_str!("tests/after.md");

fn figures() -> Figures {
    let mut figures = Figures::default();
    figures.take(FIGURES).unwrap();
    figures
}

#[test]
fn figures_become_the_expected_document_and_pictures() {
    let published = figures().publish(BEFORE).unwrap();
    if std::env::var_os("SANDSHELL_UPDATE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/publish/tests/after.md");
        fs::write(path, &published.document).unwrap();
        return;
    }
    assert_eq!(published.document, AFTER);
    let names: Vec<&str> = published
        .pictures
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let expected = [
        "bench-growth.svg",
        "bench-layers.svg",
        "bench-soak-samples-ms.svg",
        "bench-soak-samples-counts.svg",
    ];
    assert_eq!(names, expected);
    for (name, picture) in &published.pictures {
        is_well_formed(picture).unwrap_or_else(|reason| panic!("{name}: {reason}"));
        assert!(
            AFTER.contains(&format!("(pictures/{name})")),
            "{name} is not shown"
        );
    }
    let growth = &published.pictures[0].1;
    for text in [
        "Latency &amp; sessions",
        ">idle sessions</text>",
        ">p50 in ms</text>",
        ">exec</text>",
        ">1,000</text>",
    ] {
        assert!(growth.contains(text), "{text} is missing in {growth}");
    }
    assert!(published.pictures[1].1.contains("bare &lt;fork&gt;"));
}

#[test]
fn to_publish_again_changes_nothing() {
    let again = figures().publish(AFTER).unwrap();
    assert_eq!(again.document, AFTER);
}

#[test]
fn a_part_that_is_measured_again_takes_the_place_of_the_old() {
    let mut figures = figures();
    let later = FIGURES.replace("1.064", "2.128").replace("0.658", "0.5");
    figures.take(&later).unwrap();
    let published = figures.publish(BEFORE).unwrap().document;
    assert!(
        published.contains("2.128 ms") && !published.contains("1.064 ms"),
        "{published}"
    );
    assert_eq!(published.matches("| exec to bash |").count(), 1);
}

#[test]
fn a_document_that_is_not_understood_is_left_alone() {
    for document in [
        "<!-- bench: facts -->\nno end\n",
        "<!-- bench: facts -->\n<!-- bench: bars -->\n<!-- end -->\n",
        "<!-- bench: poem -->\n<!-- end -->\n",
    ] {
        figures().publish(document).unwrap_err();
    }
}
