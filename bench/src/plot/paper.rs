//! The sheet a chart is drawn on: size, styles, text, and nothing of what is drawn.

/// All pictures have this width, in units of the drawing; pages scale them.
pub(super) const WIDTH: f64 = 760.0;
/// Distance of everything from the edge.
pub(super) const MARGIN: f64 = 18.0;
const TITLE_Y: f64 = 30.0;
/// Where what follows the title may begin.
pub(super) const BELOW_TITLE: f64 = 44.0;
/// About the width of a character of the small text.
const CHARACTER: f64 = 6.6;
const LEGEND_ROW: f64 = 20.0;

/// Told apart with any kind of colour vision, on white and on near black.
const COLOURS: [(&str, &str); 7] = [
    ("#0067b8", "#5ab0f5"),
    ("#c94f00", "#ff9a4d"),
    ("#00845c", "#35c99a"),
    ("#a8438a", "#e58fca"),
    ("#8a6d00", "#e3c04b"),
    ("#5b5bd6", "#a5a5ff"),
    ("#b3263a", "#ff7f8f"),
];
const GREY: (&str, &str) = ("#7b8794", "#8f9bab");

/// How references are told apart, which all are grey.
const DASHES: [&str; 3] = ["5 4", "2 3", "10 3 2 3"];

/// How a line or bar looks: by its place among those of its kind in the chart, coloured, or grey when it is there to
/// compare with.
pub(super) fn colour(place: usize, reference: bool) -> String {
    if reference {
        format!("g d{}", place % DASHES.len())
    } else {
        format!("c{}", place % COLOURS.len())
    }
}

pub(super) struct Paper {
    height: f64,
    title: String,
    body: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Paper {
    pub(super) fn new(title: &str, height: f64) -> Self {
        Self {
            height,
            title: title.to_owned(),
            body: String::new(),
        }
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.body.push_str(&format!(
            "<path class=\"{class}\" d=\"M{} {}L{} {}\"/>\n",
            short(from.0),
            short(from.1),
            short(to.0),
            short(to.1)
        ));
    }

    pub(super) fn curve(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            let letter = if at == 0 { 'M' } else { 'L' };
            path.push_str(&format!("{letter}{} {}", short(*x), short(*y)));
        }
        self.body
            .push_str(&format!("<path class=\"line {class}\" d=\"{path}\"/>\n"));
    }

    pub(super) fn dot(&mut self, class: &str, (x, y): (f64, f64), told: &str) {
        self.body.push_str(&format!(
            "<circle class=\"dot {class}\" cx=\"{}\" cy=\"{}\" r=\"3\"><title>{}</title></circle>\n",
            short(x),
            short(y),
            escape(told)
        ));
    }

    pub(super) fn bar(&mut self, class: &str, (x, y): (f64, f64), width: f64, height: f64) {
        self.body.push_str(&format!(
            "<rect class=\"bar {class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\"/>\n",
            short(x),
            short(y),
            short(width.max(0.0)),
            short(height)
        ));
    }

    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        self.body.push_str(&format!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\"{anchor}>{}</text>\n",
            short(x),
            short(y),
            escape(text)
        ));
    }

    /// A text that reads upwards, for the axis on the left.
    pub(super) fn upright(&mut self, (x, y): (f64, f64), text: &str) {
        self.body.push_str(&format!(
            "<text class=\"label\" transform=\"translate({} {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
            short(x),
            short(y),
            escape(text)
        ));
    }

    /// The names of all lines in as many rows as they need, from `top`.
    pub(super) fn legend(&mut self, top: f64, names: &[(String, String)]) {
        for ((name, class), (x, y)) in names.iter().zip(legend_places(names).0) {
            let y = top + y;
            self.line(&format!("line {class}"), (x, y), (x + 22.0, y));
            self.dot(class, (x + 11.0, y), name);
            self.text("label", (x + 28.0, y + 4.0), Anchor::Start, name);
        }
    }

    pub(super) fn finish(self) -> String {
        let mut style = String::from(
            "text{fill:#17212b}.title{font-size:16px;font-weight:600}.label{fill:#3c4854}.tick{font-size:11.5px;\
             fill:#56626e}.card{fill:#fff;stroke:#d5dbe1}.grid{stroke:#e3e8ec;fill:none}.axis{stroke:#7b8794;\
             fill:none}.line{fill:none;stroke-width:2;stroke-linejoin:round}\
             .mark{stroke:#56626e;stroke-width:1.5;fill:none}\n",
        );
        for (at, dash) in DASHES.iter().enumerate() {
            style.push_str(&format!(".d{at}.line{{stroke-dasharray:{dash}}}"));
        }
        let mut dark = String::from(
            "text{fill:#e6edf3}.label{fill:#c3ced9}.tick{fill:#a3b0bd}.card{fill:#12171e;stroke:#313a45}\
             .grid{stroke:#262e38}.axis{stroke:#8f9bab}.mark{stroke:#a3b0bd}",
        );
        let numbered = COLOURS.iter().enumerate();
        let named = numbered.map(|(at, pair)| (format!("c{at}"), pair));
        for (class, (on_light, on_dark)) in named.chain([("g".to_owned(), &GREY)]) {
            for (style, colour) in [(&mut style, on_light), (&mut dark, on_dark)] {
                style.push_str(&format!(
                    ".{class}.line{{stroke:{colour}}}.{class}.dot,.{class}.bar{{fill:{colour}}}"
                ));
            }
        }
        let title = escape(&self.title);
        let (width, height) = (short(WIDTH), short(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"system-ui, \
             sans-serif\" font-size=\"13\" role=\"img\" aria-labelledby=\"title\">\n<title id=\"title\">{title}</title>\n\
             <style>\n{style}\n@media (prefers-color-scheme: dark){{{dark}}}\n</style>\n\
             <rect class=\"card\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n\
             <text class=\"title\" x=\"{}\" y=\"{TITLE_Y}\">{title}</text>\n{}</svg>\n",
            short(WIDTH - 1.0),
            short(self.height - 1.0),
            short(MARGIN),
            self.body
        )
    }
}

/// How high the legend of these names is.
pub(super) fn legend_height(names: &[(String, String)]) -> f64 {
    legend_places(names).1
}

fn legend_places(names: &[(String, String)]) -> (Vec<(f64, f64)>, f64) {
    let (mut x, mut y) = (MARGIN, LEGEND_ROW / 2.0);
    let mut places = Vec::new();
    for (name, _) in names {
        let width = 28.0 + text_width(name) + 20.0;
        if x > MARGIN && x + width > WIDTH {
            x = MARGIN;
            y += LEGEND_ROW;
        }
        places.push((x, y));
        x += width;
    }
    (places, y + LEGEND_ROW / 2.0)
}

/// About as wide as browsers make it: there is no font to ask.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// As few characters as show a tenth of a unit.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
